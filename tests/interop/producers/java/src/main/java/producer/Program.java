package producer;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;
import org.apache.rocketmq.shaded.io.grpc.StatusRuntimeException;

/** Sends, ends transactions and recalls as its input says, and prints what happens; see the README of the languages. */
public final class Program {
    // An exception of the client has no getter for it.
    private static final Pattern CODE = Pattern.compile("response-code=(\\d{5})");

    // System.out would split a line that is longer than its buffer.
    private final FileOutputStream output = new FileOutputStream(FileDescriptor.out);
    private final long pid = ProcessHandle.current().pid();
    private final ClientServiceProvider provider = ClientServiceProvider.loadService();
    private final Map<String, Transaction> begun = new ConcurrentHashMap<>();
    private final Set<String> asked = ConcurrentHashMap.newKeySet();
    private final String topic;
    private final Producer producer;

    private Program(String endpoint, String topic, String namespace) throws ClientException {
        this.topic = topic;
        this.producer = provider.newProducerBuilder()
                .setClientConfiguration(ClientConfiguration.newBuilder()
                        .setEndpoints(endpoint)
                        .setNamespace(namespace)
                        // The client encrypts unless told otherwise.
                        .enableSsl(false)
                        .build())
                .setTopics(topic)
                .setTransactionChecker(this::check)
                .build();
    }

    public static void main(String[] args) throws Exception {
        if (args.length != 2 && args.length != 3) {
            System.err.println("usage: producer ENDPOINT TOPIC [NAMESPACE]");
            System.exit(2);
        }
        try {
            new Program(args[0], args[1], args.length == 3 ? args[2] : "").run();
        } catch (Exception e) {
            e.printStackTrace();
            System.exit(1);
        }
        // Some of the client's threads would keep the process alive for a while.
        System.exit(0);
    }

    private void run() throws IOException {
        print("ready", topic);
        try (producer;
                BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                String[] words = line.split(" ");
                print(outcome(words[0], words[1], words[words.length - 1]));
            }
        }
    }

    private String[] outcome(String command, String body, String argument) {
        try {
            switch (command) {
                case "send":
                    return sent(body, producer.send(message(body).build()));
                case "half":
                    Transaction transaction = producer.beginTransaction();
                    // Before the send: the server may ask before its answer is here.
                    begun.put(body, transaction);
                    return sent(body, producer.send(message(body).build(), transaction));
                case "commit":
                    begun.get(body).commit();
                    return new String[] {"committed", body};
                case "rollback":
                    begun.get(body).rollback();
                    return new String[] {"rolled-back", body};
                case "timed":
                    long due = Long.parseLong(argument);
                    return sent(body, producer.send(message(body).setDeliveryTimestamp(due).build()));
                case "recall":
                    return new String[] {
                        "recalled", body, producer.recallMessage(topic, argument).getMessageId().toString()
                    };
                default:
                    throw new IllegalArgumentException("no command " + command);
            }
        } catch (ClientException | StatusRuntimeException e) { // the latter when the connection breaks
            e.printStackTrace();
            Matcher code = CODE.matcher(String.valueOf(e.getMessage()));
            return new String[] {"refused", body, code.find() ? code.group(1) : "-"};
        }
    }

    private MessageBuilder message(String body) {
        return provider.newMessageBuilder().setTopic(topic).setBody(body.getBytes(StandardCharsets.UTF_8));
    }

    private static String[] sent(String body, SendReceipt receipt) {
        String handle = receipt.getRecallHandle();
        boolean none = handle == null || handle.isEmpty();
        return new String[] {"sent", body, receipt.getMessageId().toString(), none ? "-" : handle};
    }

    /** Answers the server's question about an orphan. */
    private TransactionResolution check(MessageView message) {
        String body = StandardCharsets.UTF_8.decode(message.getBody()).toString();
        TransactionResolution answer = body.startsWith("rollback-") ? TransactionResolution.ROLLBACK
                : commits(body) ? TransactionResolution.COMMIT : TransactionResolution.UNKNOWN;
        print("checked", body, answer.name().toLowerCase());
        return answer;
    }

    private boolean commits(String body) {
        boolean again = !asked.add(body);
        switch (body.split("-")[0]) {
            case "commit":
                return true;
            case "later":
                return again;
            case "elsewhere":
                return !begun.containsKey(body);
            default:
                return false;
        }
    }

    private void print(String... words) {
        byte[] line = (pid + " " + String.join(" ", words) + "\n").getBytes(StandardCharsets.UTF_8);
        try {
            output.write(line);
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }
}
