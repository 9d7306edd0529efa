package example;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collections;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.Timer;
import java.util.TimerTask;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageId;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/** Sends messages, receives and acks them with a simple consumer, then has more of them pushed to a listener. */
public final class Example {
    private static final Duration DEADLINE = Duration.ofSeconds(60);
    private static final Duration AWAIT = Duration.ofSeconds(5);
    private static final Duration INVISIBLE = Duration.ofSeconds(30);
    private static final int BATCH = 32;

    private final ClientServiceProvider provider = ClientServiceProvider.loadService();
    private final ClientConfiguration configuration;
    private final Map<String, FilterExpression> subscription;
    private final String topic;
    private final String group;
    private final int count;

    private Example(String endpoint, String topic, String group, int count) {
        // The client encrypts by default.
        this.configuration = ClientConfiguration.newBuilder().setEndpoints(endpoint).enableSsl(false).build();
        this.subscription = Collections.singletonMap(topic, FilterExpression.SUB_ALL);
        this.topic = topic;
        this.group = group;
        this.count = count;
    }

    public static void main(String[] args) throws Exception {
        if (args.length != 4) {
            System.err.println("usage: example ENDPOINT TOPIC GROUP COUNT");
            System.exit(2);
        }
        endAtDeadline();
        try {
            new Example(args[0], args[1], args[2], Integer.parseInt(args[3])).run();
        } catch (Exception e) {
            e.printStackTrace();
            System.exit(1);
        }
        // Some of the client's threads would keep the process alive for a while.
        System.exit(0);
    }

    private void run() throws Exception {
        int sent;
        int received;
        int pushed;
        try (Producer producer = provider.newProducerBuilder()
                .setClientConfiguration(configuration)
                .setTopics(topic)
                .build()) {
            Set<MessageId> ids = send(producer);
            sent = ids.size();
            received = receive(ids);
            pushed = push(producer);
        }
        System.out.println("sent " + sent);
        System.out.println("received " + received);
        System.out.println("acked " + received);
        System.out.println("pushed " + pushed);
    }

    private Set<MessageId> send(Producer producer) throws ClientException {
        Set<MessageId> ids = new HashSet<>();
        for (int n = 1; n <= count; n++) {
            Message message = provider.newMessageBuilder()
                    .setTopic(topic)
                    .setTag("example")
                    .setKeys("java-" + n)
                    .addProperty("n", Integer.toString(n))
                    .setBody(("hello " + n + " from java").getBytes(StandardCharsets.UTF_8))
                    .build();
            ids.add(producer.send(message).getMessageId());
        }
        return ids;
    }

    /** Receives and acks until all of {@code ids} were there, and tells how many that were. */
    private int receive(Set<MessageId> ids) throws Exception {
        try (SimpleConsumer consumer = provider.newSimpleConsumerBuilder()
                .setClientConfiguration(configuration)
                .setConsumerGroup(group)
                .setAwaitDuration(AWAIT)
                .setSubscriptionExpressions(subscription)
                .build()) {
            Set<MessageId> missing = new HashSet<>(ids);
            while (!missing.isEmpty()) {
                for (MessageView message : consumer.receive(BATCH, INVISIBLE)) {
                    consumer.ack(message);
                    missing.remove(message.getMessageId());
                }
            }
            return ids.size();
        }
    }

    /** Sends once more and waits until the listener had all of these messages. */
    private int push(Producer producer) throws Exception {
        BlockingQueue<MessageId> pushed = new LinkedBlockingQueue<>();
        try (PushConsumer consumer = provider.newPushConsumerBuilder()
                .setClientConfiguration(configuration)
                .setConsumerGroup(group + "-push")
                .setSubscriptionExpressions(subscription)
                .setMessageListener(message -> {
                    pushed.add(message.getMessageId());
                    return ConsumeResult.SUCCESS;
                })
                .build()) {
            Set<MessageId> ids = send(producer);
            Set<MessageId> missing = new HashSet<>(ids);
            while (!missing.isEmpty()) {
                missing.remove(pushed.take());
            }
            return ids.size();
        }
    }

    private static void endAtDeadline() {
        new Timer("deadline", true).schedule(new TimerTask() {
            @Override
            public void run() {
                System.err.println("not done within " + DEADLINE.toSeconds() + " s");
                Runtime.getRuntime().halt(1);
            }
        }, DEADLINE.toMillis());
    }
}
