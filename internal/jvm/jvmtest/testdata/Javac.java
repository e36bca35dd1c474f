import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import javax.tools.JavaCompiler;
import javax.tools.StandardJavaFileManager;
import javax.tools.ToolProvider;

// Javac compiles the tests' programs again and again, until its standard input ends.
public class Javac {
    static void work() {
        try {
            Path from = Path.of(System.getProperty("java.class.path"));
            Path to = Files.createTempDirectory(Path.of("."), "classes");
            JavaCompiler javac = ToolProvider.getSystemJavaCompiler();
            StandardJavaFileManager files = javac.getStandardFileManager(null, null, null);
            for (;;) {
                List<String> options = List.of("-d", to.toString(), "-proc:none");
                boolean ok = javac.getTask(null, files, null, options, null, files.getJavaFileObjects(from.resolve("Javac.java"), from.resolve("Loop.java"))).call();
                if (!ok) System.exit(1);
            }
        } catch (java.io.IOException e) {
            throw new RuntimeException(e);
        }
    }

    public static void main(String[] args) throws Exception {
        Thread t = new Thread(Javac::work, "worker");
        t.setDaemon(true);
        t.start();
        System.out.println("ready");
        while (System.in.read() >= 0) { }
    }
}
