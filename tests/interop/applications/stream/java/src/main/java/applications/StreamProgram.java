package applications;

import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.Function;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.MessageQueueSelector;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.common.message.MessageExt;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.cloud.stream.function.StreamBridge;
import org.springframework.context.annotation.Bean;
import org.springframework.messaging.Message;
import org.springframework.messaging.support.MessageBuilder;
import org.springframework.util.MimeTypeUtils;

/** Functions of Spring Cloud Stream that are bound to topics, and messages sent by the bridge. */
@SpringBootApplication
public class StreamProgram {
    private static final int COUNT = 20;
    private static final String BINDINGS = "spring.cloud.stream.bindings.";
    private static final String ROCKETMQ = "spring.cloud.stream.rocketmq.";

    public static void main(String[] args) throws Exception {
        Events.print("began");
        Map<String, Object> settings = new LinkedHashMap<>();
        settings.put("spring.main.banner-mode", "off");
        settings.put("spring.cloud.function.definition", "all;red;upper;ordered;transactions");
        settings.put(ROCKETMQ + "binder.name-server", args[0]);
        bind(settings, "all-in-0", "stream-orders", "stream-all");
        bind(settings, "red-in-0", "stream-orders", "stream-red");
        settings.put(ROCKETMQ + "bindings.red-in-0.consumer.subscription", "red");
        bind(settings, "upper-in-0", "stream-words", "stream-words");
        bind(settings, "upper-out-0", "stream-orders", null);
        settings.put(ROCKETMQ + "bindings.upper-out-0.producer.group", "stream-upper");
        bind(settings, "ordered-in-0", "stream-ordered", "stream-ordered");
        settings.put(ROCKETMQ + "bindings.ordered-in-0.consumer.push.orderly", "true");
        bind(settings, "transactions-in-0", "stream-transactions", "stream-transactions");
        for (String name : new String[] {"orders", "words", "ordered", "transactions"}) {
            bind(settings, "to-" + name, "stream-" + name, null);
            settings.put(ROCKETMQ + "bindings.to-" + name + ".producer.group", "stream-" + name + "-producers");
            settings.put(ROCKETMQ + "bindings.to-" + name + ".producer.send-type", name.equals("words") ? "Async" : "Sync");
        }
        settings.put(ROCKETMQ + "bindings.to-ordered.producer.message-queue-selector", "oneQueue");
        settings.put(ROCKETMQ + "bindings.to-transactions.producer.producer-type", "Trans");
        settings.put(ROCKETMQ + "bindings.to-transactions.producer.transaction-listener", "ends");
        settings.put("spring.cloud.stream.output-bindings", "to-orders;to-words;to-ordered;to-transactions");
        SpringApplication application = new SpringApplication(StreamProgram.class);
        application.setDefaultProperties(settings);
        send(application.run().getBean(StreamBridge.class));
        Events.print("sent");
        System.in.read();
        Runtime.getRuntime().halt(0);
    }

    private static void bind(Map<String, Object> settings, String binding, String topic, String group) {
        settings.put(BINDINGS + binding + ".destination", topic);
        settings.put(BINDINGS + binding + ".content-type", "text/plain");
        if (group != null) {
            settings.put(BINDINGS + binding + ".group", group);
        }
    }

    private static void send(StreamBridge bridge) {
        for (int number = 0; number < COUNT; number++) {
            send(bridge, "to-orders", MessageBuilder.withPayload("order-" + number)
                    .setHeader("TAGS", number % 2 == 0 ? "red" : "blue").setHeader("KEYS", "key-" + number)
                    .setHeader("color", "blau"));
            send(bridge, "to-words", MessageBuilder.withPayload("word-" + number));
            send(bridge, "to-ordered", MessageBuilder.withPayload("step-" + number));
        }
        send(bridge, "to-orders", MessageBuilder.withPayload("delayed").setHeader("DELAY", 2));
        for (String body : new String[] {"commit-now", "rollback-now", "check-commit", "check-rollback"}) {
            send(bridge, "to-transactions", MessageBuilder.withPayload(body));
        }
    }

    private static void send(StreamBridge bridge, String binding, MessageBuilder<String> message) {
        // Without it the bridge writes texts as JSON.
        bridge.send(binding, message.build(), MimeTypeUtils.TEXT_PLAIN);
    }

    private static void print(String function, Message<String> message) {
        Map<String, Object> headers = message.getHeaders();
        Events.print("got", "listener", function, "body", message.getPayload(), "tag", headers.get("ROCKET_TAGS"),
                "keys", headers.get("ROCKET_KEYS"), "color", headers.get("color"), "topic", headers.get("ROCKET_MQ_TOPIC"),
                "born", headers.get("ROCKET_MQ_BORN_TIMESTAMP"), "clock", System.currentTimeMillis());
    }

    @Bean
    Consumer<Message<String>> all() {
        return message -> print("all", message);
    }

    @Bean
    Consumer<Message<String>> red() {
        return message -> print("red", message);
    }

    @Bean
    Function<Message<String>, Message<String>> upper() {
        return message -> MessageBuilder.withPayload(message.getPayload().toUpperCase()).build();
    }

    @Bean
    Consumer<Message<String>> ordered() {
        return message -> print("ordered", message);
    }

    @Bean
    Consumer<Message<String>> transactions() {
        return message -> print("transactions", message);
    }

    @Bean
    MessageQueueSelector oneQueue() {
        return (queues, message, argument) -> queues.get(queues.size() - 1);
    }

    @Bean
    TransactionListener ends() {
        return new Ends();
    }

    /** Ends transactions as their body says, those that begin with "check-" when it is asked. */
    private static final class Ends implements TransactionListener {
        @Override
        public LocalTransactionState executeLocalTransaction(org.apache.rocketmq.common.message.Message message, Object argument) {
            return decide(text(message));
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            String body = text(message);
            Events.print("checked", "body", body);
            return decide(body.substring("check-".length()));
        }

        private static String text(org.apache.rocketmq.common.message.Message message) {
            // The binder writes the texts of transactions as JSON.
            return new String(message.getBody(), StandardCharsets.UTF_8).replace("\"", "");
        }

        private static LocalTransactionState decide(String body) {
            if (body.startsWith("commit")) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }
            return body.startsWith("rollback") ? LocalTransactionState.ROLLBACK_MESSAGE : LocalTransactionState.UNKNOW;
        }
    }
}
