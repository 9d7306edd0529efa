package driver;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.UnsupportedEncodingException;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A line of the program's input or output: pairs as in a form that a browser sends, such as {@code op=send&body=a+b}. */
final class Line {
    private static final FileOutputStream OUTPUT = new FileOutputStream(FileDescriptor.out);
    private final Map<String, List<String>> pairs = new LinkedHashMap<>();

    static Line parse(String text) {
        Line line = new Line();
        for (String pair : text.trim().split("&")) {
            int at = pair.indexOf('=');
            line.with(decode(pair.substring(0, at)), decode(pair.substring(at + 1)));
        }
        return line;
    }

    Line with(String name, Object value) {
        if (value != null) {
            pairs.computeIfAbsent(name, ignored -> new ArrayList<>()).add(value.toString());
        }
        return this;
    }

    String get(String name) {
        return get(name, "");
    }

    String get(String name, String otherwise) {
        return pairs.containsKey(name) ? pairs.get(name).get(0) : otherwise;
    }

    int number(String name, int otherwise) {
        return Integer.parseInt(get(name, Integer.toString(otherwise)));
    }

    List<String> all(String name) {
        return pairs.getOrDefault(name, Collections.emptyList());
    }

    Map<String, String> beginningWith(String prefix) {
        Map<String, String> found = new LinkedHashMap<>();
        pairs.forEach((name, values) -> {
            if (name.startsWith(prefix)) {
                found.put(name.substring(prefix.length()), values.get(0));
            }
        });
        return found;
    }

    /** Writes the line in one piece. */
    void print() {
        StringBuilder text = new StringBuilder();
        pairs.forEach((name, values) -> values.forEach(value ->
                text.append(text.length() == 0 ? "" : "&").append(encode(name)).append('=').append(encode(value))));
        synchronized (OUTPUT) {
            try {
                OUTPUT.write(text.append('\n').toString().getBytes(StandardCharsets.UTF_8));
            } catch (IOException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    private static String encode(String text) {
        try {
            return URLEncoder.encode(text, "UTF-8");
        } catch (UnsupportedEncodingException e) {
            throw new IllegalStateException(e);
        }
    }

    private static String decode(String text) {
        try {
            return URLDecoder.decode(text, "UTF-8");
        } catch (UnsupportedEncodingException e) {
            throw new IllegalStateException(e);
        }
    }
}
