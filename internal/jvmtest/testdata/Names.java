import java.io.BufferedReader;
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
