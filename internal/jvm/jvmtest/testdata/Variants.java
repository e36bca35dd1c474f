import java.io.File;
import java.net.URL;
import java.net.URLClassLoader;
import javax.tools.ToolProvider;

// Variants compiles Changed.java in folders 0, 1, … of a folder, and runs each class with a loader of its own.
public class Variants {
    public static void main(String[] args) throws Exception {
        for (int i = 0; i < Integer.parseInt(args[1]); i++) {
            File dir = new File(args[0], String.valueOf(i));
            if (ToolProvider.getSystemJavaCompiler().run(null, null, null, "-d", dir.getPath(), new File(dir, "Changed.java").getPath()) != 0) {
                System.exit(1);
            }
            URLClassLoader loader = new URLClassLoader("variant-" + i, new URL[] {dir.toURI().toURL()}, null);
            loader.loadClass("Changed").getMethod("run").invoke(null);
        }
        System.out.println("ready");
        System.in.read();
    }
}
