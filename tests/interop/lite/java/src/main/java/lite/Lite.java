package lite;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.LitePushConsumer;
import org.apache.rocketmq.client.apis.consumer.OffsetOption;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/**
 * Subscribes lite topics and sends to them as its input says, handles messages as their bodies say, and prints what
 * happens; see the README beside the languages.
 */
public final class Lite {
    // An exception of the client has no getter for it.
    private static final Pattern CODE = Pattern.compile("response-code=(\\d{5})");

    // System.out would split a line that is longer than its buffer.
    private final FileOutputStream output = new FileOutputStream(FileDescriptor.out);
    private final long pid = ProcessHandle.current().pid();
    private final CountDownLatch released = new CountDownLatch(1);
    private final Map<String, Integer> deliveries = new ConcurrentHashMap<>();
    private final ClientServiceProvider provider = ClientServiceProvider.loadService();
    private final ClientConfiguration configuration;
    private final String topic;
    private final LitePushConsumer consumer;
    private Producer producer;

    private Lite(String endpoint, String topic, String group) throws ClientException {
        this.topic = topic;
        this.configuration = ClientConfiguration.newBuilder()
                .setEndpoints(endpoint)
                // The client encrypts unless told otherwise.
                .enableSsl(false)
                .build();
        this.consumer = provider.newLitePushConsumerBuilder()
                .setClientConfiguration(configuration)
                .setConsumerGroup(group)
                .bindTopic(topic)
                .setMessageListener(this::consume)
                .build();
    }

    public static void main(String[] args) throws Exception {
        if (args.length != 4 || !args[1].equals("push")) {
            System.err.println("usage: lite ENDPOINT push TOPIC GROUP");
            System.exit(2);
        }
        try {
            new Lite(args[0], args[2], args[3]).run();
        } catch (Exception e) {
            e.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
        // Some of the client's threads would keep the process alive for a while.
        Runtime.getRuntime().halt(0);
    }

    private void run() throws IOException {
        print("ready");
        try (BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                String[] words = line.split("\t", -1);
                if (words[0].equals("release")) {
                    released.countDown();
                } else {
                    print(outcome(words));
                }
            }
        }
    }

    private String[] outcome(String[] words) {
        try {
            switch (words[0]) {
                case "subscribe":
                    if (words.length == 2) {
                        consumer.subscribeLite(words[1]);
                    } else {
                        consumer.subscribeLite(words[1], offset(words[2], words[words.length - 1]));
                    }
                    break;
                case "unsubscribe":
                    consumer.unsubscribeLite(words[1]);
                    break;
                case "topics":
                    return new String[] {"done", words[0], String.join(",", new TreeSet<>(consumer.getLiteTopicSet()))};
                case "send":
                    send(words[1], words[2]);
                    break;
                default:
                    throw new IllegalStateException("no command " + words[0]);
            }
            return new String[] {"done", words[0]};
        } catch (ClientException | IllegalArgumentException e) {
            e.printStackTrace();
            Matcher code = CODE.matcher(String.valueOf(e.getMessage()));
            return new String[] {"refused", words[0], e.getClass().getSimpleName(), code.find() ? code.group(1) : "-"};
        }
    }

    private static OffsetOption offset(String option, String value) {
        switch (option) {
            case "last":
                return OffsetOption.LAST_OFFSET;
            case "min":
                return OffsetOption.MIN_OFFSET;
            case "max":
                return OffsetOption.MAX_OFFSET;
            case "offset":
                return OffsetOption.ofOffset(Long.parseLong(value));
            case "tail":
                return OffsetOption.ofTailN(Long.parseLong(value));
            default:
                return OffsetOption.ofTimestamp(Long.parseLong(value));
        }
    }

    private void send(String liteTopic, String body) throws ClientException {
        if (producer == null) {
            producer = provider.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic).build();
        }
        producer.send(provider.newMessageBuilder()
                .setTopic(topic)
                .setLiteTopic(liteTopic)
                .setBody(body.getBytes(StandardCharsets.UTF_8))
                .build());
    }

    private ConsumeResult consume(MessageView message) {
        String body = StandardCharsets.UTF_8.decode(message.getBody()).toString();
        String liteTopic = message.getLiteTopic().orElse("-");
        print("got", liteTopic, body, Integer.toString(message.getDeliveryAttempt()));
        int delivery = deliveries.merge(body, 1, Integer::sum);
        if (body.contains("-held-")) {
            awaitRelease();
        }
        boolean fails = body.startsWith("poison-")
                || body.startsWith("fail-") && delivery <= Integer.parseInt(body.split("-")[1]);
        print(fails ? "failed" : "ok", liteTopic, body);
        return fails ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
    }

    private void awaitRelease() {
        try {
            released.await();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private void print(String... words) {
        byte[] line = (pid + "\t" + String.join("\t", words) + "\n").getBytes(StandardCharsets.UTF_8);
        try {
            output.write(line);
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }
}
