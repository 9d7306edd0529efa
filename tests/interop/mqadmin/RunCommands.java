import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs commands of mqadmin in one process, since each start of it takes seconds. Each line of the input is a number of
 * seconds, a command and its arguments, between tabs; the answer is a line with what the command printed, in base64.
 * After so many seconds the command is interrupted, but for 0, which has it run to its end.
 */
public class RunCommands {
    public static void main(String[] ignored) throws Exception {
        PrintStream answers = System.out;
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream stream = new PrintStream(printed, true, "UTF-8");
            System.setOut(stream);
            System.setErr(stream);
            String[] words = line.split("\t");
            String[] command = Arrays.copyOfRange(words, 1, words.length);
            Thread running = new Thread(() -> run(command, stream));
            running.start();
            running.join(Integer.parseInt(words[0]) * 1000L);
            running.interrupt();
            running.join();
            stream.flush();
            answers.println(Base64.getEncoder().encodeToString(printed.toByteArray()));
            answers.flush();
        }
    }

    private static void run(String[] command, PrintStream stream) {
        try {
            MQAdminStartup.main0(command, null);
        } catch (Throwable error) {
            error.printStackTrace(stream);
        }
    }
}
