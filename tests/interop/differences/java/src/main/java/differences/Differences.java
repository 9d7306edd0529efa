package differences;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/** One case of what programs notice; prints what it saw in one line. See the README beside this folder. */
public final class Differences {
    private static final Duration INVISIBLE = Duration.ofSeconds(10);
    private static final Duration AWAIT = Duration.ofSeconds(15);
    // The client takes the time until a receive's deadline of this, beside the time that it may wait.
    private static final Duration REQUEST = Duration.ofSeconds(10);

    private final ClientServiceProvider provider = ClientServiceProvider.loadService();
    private final ClientConfiguration configuration;
    private final String topic;
    private final String group;

    private Differences(String endpoint, String topic, String group) {
        this.configuration = ClientConfiguration.newBuilder()
                .setEndpoints(endpoint).enableSsl(false).setRequestTimeout(REQUEST).build();
        this.topic = topic;
        this.group = group;
    }

    public static void main(String[] args) throws Exception {
        if (args.length != 4) {
            System.err.println("usage: differences ENDPOINT CASE TOPIC GROUP");
            System.exit(2);
        }
        Differences cases = new Differences(args[0], args[2], args[3]);
        System.out.println(switch (args[1]) {
            case "tag" -> cases.theLongestTag();
            case "delay" -> cases.aDelayOfADay();
            case "handle" -> cases.aHandleThatIsOver();
            case "invisible" -> cases.invisibleDurations();
            case "gap" -> cases.aGap();
            case "mixed" -> cases.aMixedTopic();
            default -> throw new IllegalArgumentException(args[1]);
        });
        System.exit(0);
    }

    private String theLongestTag() throws Exception {
        String longest = "t".repeat(16_000);
        SimpleConsumer consumer = consumer(longest + " || another");
        try (Producer producer = producer()) {
            producer.send(message("longer").setTag(longest + "t").build());
            producer.send(message("longest").setTag(longest).build());
            return "received " + bodies(receive(consumer, 32, 1));
        }
    }

    private String aDelayOfADay() throws Exception {
        try (Producer producer = producer()) {
            long now = System.currentTimeMillis();
            Message within = message("within").setDeliveryTimestamp(now + Duration.ofHours(23).toMillis()).build();
            Message beyond = message("beyond").setDeliveryTimestamp(now + Duration.ofHours(25).toMillis()).build();
            return outcome(() -> producer.send(within)) + ", " + outcome(() -> producer.send(beyond));
        }
    }

    private String aHandleThatIsOver() throws Exception {
        SimpleConsumer consumer = consumer("*");
        try (Producer producer = producer()) {
            producer.send(message("once").build());
            MessageView first = receive(consumer, 1, 1).get(0);
            MessageView again = receive(consumer, 1, 1).get(0);
            String late = outcome(() -> {
                consumer.ack(first);
                return null;
            });
            consumer.ack(again);
            return "attempts " + first.getDeliveryAttempt() + " " + again.getDeliveryAttempt() + ", " + late;
        }
    }

    private String invisibleDurations() throws Exception {
        SimpleConsumer consumer = consumer("*");
        try (Producer producer = producer()) {
            producer.send(message("once").build());
            String small = outcome(() -> consumer.receive(1, Duration.ofSeconds(1)));
            String large = outcome(() -> consumer.receive(1, Duration.ofHours(13)));
            MessageView received = receive(consumer, 1, 1).get(0);
            String change = outcome(() -> {
                consumer.changeInvisibleDuration(received, Duration.ofHours(13));
                return null;
            });
            return small + ", " + large + ", " + change;
        }
    }

    private String aGap() throws Exception {
        SimpleConsumer consumer = consumer("*");
        try (Producer producer = producer()) {
            for (int number = 0; number < 5; number++) {
                producer.send(message(Integer.toString(number)).setMessageGroup("g").build());
            }
            List<MessageView> first = receive(consumer, 3, 3);
            consumer.ack(first.get(1));
            consumer.ack(first.get(2));
            return bodies(first) + " then " + bodies(receive(consumer, 3, 3));
        }
    }

    private String aMixedTopic() throws Exception {
        SimpleConsumer consumer = consumer("*");
        try (Producer producer = producer()) {
            producer.send(message("normal").build());
            producer.send(message("ordered").setMessageGroup("g").build());
            producer.send(message("timed").setDeliveryTimestamp(System.currentTimeMillis() + 1000).build());
            return "received " + bodies(receive(consumer, 1, 3));
        }
    }

    private Producer producer() throws ClientException {
        return provider.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic).build();
    }

    private SimpleConsumer consumer(String tags) throws ClientException {
        return provider.newSimpleConsumerBuilder()
                .setClientConfiguration(configuration)
                .setConsumerGroup(group)
                .setAwaitDuration(AWAIT)
                .setSubscriptionExpressions(Map.of(topic, new FilterExpression(tags)))
                .build();
    }

    private MessageBuilder message(String body) {
        return provider.newMessageBuilder().setTopic(topic).setBody(body.getBytes(StandardCharsets.UTF_8));
    }

    /** What comes until so many messages are there. */
    private static List<MessageView> receive(SimpleConsumer consumer, int batch, int count) throws ClientException {
        List<MessageView> received = new ArrayList<>();
        while (received.size() < count) {
            received.addAll(consumer.receive(batch, INVISIBLE));
        }
        return received;
    }

    private static String bodies(List<MessageView> messages) {
        return messages.stream().map(each -> StandardCharsets.UTF_8.decode(each.getBody()).toString())
                .collect(Collectors.joining(" "));
    }

    private static String outcome(Callable<?> call) throws Exception {
        try {
            call.call();
            return "done";
        } catch (ClientException e) {
            return e.getMessage().replaceFirst("\\[request-id=[^,]*, response-code=(\\d+)] ", "$1 ");
        }
    }
}
