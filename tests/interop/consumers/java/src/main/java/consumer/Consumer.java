package consumer;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;

/** Consumes as the bodies of the messages say, and prints what happens; see the README beside the languages. */
public final class Consumer {
    private static final Duration AWAIT = Duration.ofSeconds(5);
    private static final Duration INVISIBLE = Duration.ofSeconds(10);
    private static final Duration AGAIN = Duration.ofSeconds(1);
    private static final int BATCH = 32;

    private enum Outcome { OK, FAILED, FORGOT }

    // System.out would split a line that is longer than its buffer.
    private final FileOutputStream output = new FileOutputStream(FileDescriptor.out);
    private final long pid = ProcessHandle.current().pid();
    private final CountDownLatch released = new CountDownLatch(1);
    private final Map<String, Integer> deliveries = new ConcurrentHashMap<>();
    private final ClientServiceProvider provider = ClientServiceProvider.loadService();
    private final ClientConfiguration configuration;
    private final Map<String, FilterExpression> subscription;
    private final String group;

    private Consumer(String endpoint, String topic, String group, String filter, String namespace) {
        this.configuration = ClientConfiguration.newBuilder()
                .setEndpoints(endpoint)
                .setNamespace(namespace)
                // The client encrypts unless told otherwise.
                .enableSsl(false)
                .build();
        this.subscription = Map.of(topic, expression(filter));
        this.group = group;
    }

    public static void main(String[] args) throws Exception {
        if (args.length != 5 && args.length != 6) {
            System.err.println("usage: consumer ENDPOINT KIND TOPIC GROUP FILTER [NAMESPACE]");
            System.exit(2);
        }
        Consumer consumer = new Consumer(args[0], args[2], args[3], args[4], args.length == 6 ? args[5] : "");
        Thread input = new Thread(consumer::watchInput, "input");
        input.setDaemon(true);
        input.start();
        if (args[1].equals("simple")) {
            consumer.receive();
        } else {
            consumer.listen();
            input.join();
        }
    }

    private static FilterExpression expression(String filter) {
        String[] parts = filter.split(":", 2);
        FilterExpressionType type = parts[0].equals("sql") ? FilterExpressionType.SQL92 : FilterExpressionType.TAG;
        return new FilterExpression(parts[1], type);
    }

    /** A line lets the held handlers go on; the end of the input ends the program. */
    private void watchInput() {
        try (BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            while (input.readLine() != null) {
                released.countDown();
            }
        } catch (IOException e) {
            e.printStackTrace();
        }
        Runtime.getRuntime().halt(0);
    }

    private void listen() throws ClientException {
        provider.newPushConsumerBuilder()
                .setClientConfiguration(configuration)
                .setConsumerGroup(group)
                .setSubscriptionExpressions(subscription)
                // Without it, a batch of a FIFO group is handled one by one, whatever the message groups are.
                .setEnableFifoConsumeAccelerator(true)
                .setMessageListener(message -> {
                    Outcome outcome = handle(message);
                    print(outcome.name().toLowerCase(), body(message));
                    return outcome == Outcome.OK ? ConsumeResult.SUCCESS : ConsumeResult.FAILURE;
                })
                .build();
    }

    private void receive() throws ClientException {
        SimpleConsumer consumer = provider.newSimpleConsumerBuilder()
                .setClientConfiguration(configuration)
                .setConsumerGroup(group)
                .setAwaitDuration(AWAIT)
                .setSubscriptionExpressions(subscription)
                .build();
        while (true) {
            for (MessageView message : consumer.receive(BATCH, INVISIBLE)) {
                Outcome outcome = handle(message);
                switch (outcome) {
                    case OK -> consumer.ack(message);
                    case FAILED -> consumer.changeInvisibleDuration(message, AGAIN);
                    default -> { }
                }
                print(outcome.name().toLowerCase(), body(message));
            }
        }
    }

    private Outcome handle(MessageView message) {
        String body = body(message);
        print("got", body, Integer.toString(message.getDeliveryAttempt()), message.getTag().orElse("-"),
                message.getMessageGroup().orElse("-"), properties(message),
                message.getDeliveryTimestamp().map(String::valueOf).orElse("-"),
                Long.toString(System.currentTimeMillis()));
        int delivery = deliveries.merge(body, 1, Integer::sum);
        if (body.contains("-held-")) {
            awaitRelease();
        }
        if (body.startsWith("forget-") && delivery == 1) {
            return Outcome.FORGOT;
        }
        boolean fails = body.startsWith("poison-")
                || body.startsWith("fail-") && delivery <= Integer.parseInt(body.split("-")[1]);
        return fails ? Outcome.FAILED : Outcome.OK;
    }

    private void awaitRelease() {
        try {
            released.await();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private static String body(MessageView message) {
        return StandardCharsets.UTF_8.decode(message.getBody()).toString();
    }

    private static String properties(MessageView message) {
        String text = new TreeMap<>(message.getProperties()).entrySet().stream()
                .map(Map.Entry::toString).collect(Collectors.joining(","));
        return text.isEmpty() ? "-" : text;
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
