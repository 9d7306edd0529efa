package applications;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;

/** Prints what happens, one line for each event, in the form that browsers use for forms. */
final class Events {
    // Frameworks log to the standard output, which is for events alone.
    private static final PrintStream OUTPUT = new PrintStream(new FileOutputStream(FileDescriptor.out));

    static {
        System.setOut(System.err);
    }

    private Events() {
    }

    /** Prints an event; names and values take turns, and a value that is null is left out. */
    static synchronized void print(String event, Object... pairs) {
        StringBuilder line = new StringBuilder("event=").append(event);
        for (int at = 0; at < pairs.length; at += 2) {
            if (pairs[at + 1] != null) {
                line.append('&').append(encode(pairs[at])).append('=').append(encode(pairs[at + 1]));
            }
        }
        byte[] bytes = line.append('\n').toString().getBytes(StandardCharsets.UTF_8);
        OUTPUT.write(bytes, 0, bytes.length);
        OUTPUT.flush();
    }

    private static String encode(Object value) {
        return URLEncoder.encode(value.toString(), StandardCharsets.UTF_8);
    }
}
