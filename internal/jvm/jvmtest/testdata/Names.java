import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.ref.WeakReference;
import java.net.URL;
import java.net.URLClassLoader;

// Names has classes whose names, loaders and lives are unusual. It reads commands.
public class Names {
    static class Größe { static int tiefe(int i) { return i; } }
    static class \uD835\uDCB3y { static int m(int i) { return i; } } // U+1D4B3, two surrogates

    interface Speaks { default int word(int i) { return i; } }
    static class Base { int base(int i) { return i; } }
    static class Derived extends Base implements Speaks { }
    static int speak(Derived d, int i) { return d.base(i) + d.word(i); }

    // Plugin is loaded again by loaders of its own.
    public static class Plugin implements Runnable {
        public void run() { }
    }

    // Own is a loader without a name.
    static class Own extends URLClassLoader {
        Own(URL[] urls) { super(urls, null); }
    }

    // Odd is what a class file may be called: 64 KB, with line breaks, NUL, half a character,
    // and a part that looks like one of the JVM's own.
    static final String ODD = "Names\n\u0000\uD800 <b>$$Lambda+0x" + "odd".repeat(20000);

    // classFile returns a class of a name, whose static method "m" does nothing.
    static byte[] classFile(String name) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        out.writeInt(0xCAFEBABE);
        out.writeInt(52); // Java 8
        out.writeShort(8);
        for (String text : new String[] {name, "java/lang/Object", "m", "()V", "Code"}) {
            out.writeByte(1);
            out.writeUTF(text);
        }
        for (int text = 1; text <= 2; text++) {
            out.writeByte(7);
            out.writeShort(text);
        }
        for (int word : new int[] {1, 6, 7, 0, 0, 1}) out.writeShort(word); // public, this, super, no interfaces, no fields, one method
        for (int word : new int[] {9, 3, 4, 1, 5}) out.writeShort(word); // public static void m(), its code
        out.writeInt(13);
        out.writeInt(0); // no stack, no variables
        out.writeInt(1);
        out.writeByte(0xB1); // return
        out.writeInt(0);
        out.writeShort(0);
        return bytes.toByteArray();
    }

    static Class<?> odd() throws IOException {
        byte[] file = classFile(ODD);
        return new ClassLoader(null) {
            Class<?> define() { return defineClass(null, file, 0, file.length); }
        }.define();
    }

    static Class<?> named, own;

    static void load(URL[] urls) throws Exception {
        named = new URLClassLoader("plugin-7", urls, null).loadClass("Names$Plugin");
        own = new Own(urls).loadClass("Names$Plugin");
        ((Runnable) named.getDeclaredConstructor().newInstance()).run();
        ((Runnable) own.getDeclaredConstructor().newInstance()).run();
    }

    static void drop() throws Exception {
        WeakReference<?> loader = new WeakReference<>(named.getClassLoader());
        named = null;
        own = null;
        while (loader.get() != null) {
            System.gc();
            Thread.sleep(1);
        }
    }

    public static void main(String[] args) throws Exception {
        load(new URL[] {Names.class.getProtectionDomain().getCodeSource().getLocation()});
        Class<?> odd = odd();
        for (int i = 0; i < 10; i++) odd.getMethod("m").invoke(null);
        int sum = Größe.tiefe(1) + \uD835\uDCB3y.m(2) + speak(new Derived(), 3);
        Runnable lambda = () -> System.out.println("ready " + sum);
        lambda.run();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            if (line.equals("drop")) drop();
            System.out.println("done");
        }
    }
}
