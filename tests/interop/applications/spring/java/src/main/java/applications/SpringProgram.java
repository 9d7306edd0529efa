package applications;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.spring.core.RocketMQLocalRequestCallback;
import org.apache.rocketmq.spring.core.RocketMQTemplate;
import org.apache.rocketmq.spring.support.RocketMQHeaders;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.messaging.Message;
import org.springframework.messaging.support.MessageBuilder;

/**
 * Sends with the template of rocketmq-spring-boot-starter in all its ways; {@link Listeners} get it. With a second
 * argument it makes a request and waits for the reply, which the starter's own version of the client, 5.3.2, does not.
 */
@SpringBootApplication
public class SpringProgram {
    private static final int COUNT = 20;
    private static final long WAIT_S = 30;

    public static void main(String[] args) throws Exception {
        Events.print("began");
        SpringApplication application = new SpringApplication(SpringProgram.class);
        application.setDefaultProperties(Map.of(
                "rocketmq.name-server", args[0],
                "rocketmq.producer.group", "spring-producers",
                "rocketmq.producer.send-message-timeout", "10000",
                "rocketmq.pull-consumer.group", "spring-pull",
                "rocketmq.pull-consumer.topic", "spring-pulled",
                "spring.main.banner-mode", "off"));
        RocketMQTemplate template = application.run().getBean(RocketMQTemplate.class);
        if (args.length > 1) {
            Events.print("reply", "body", template.sendAndReceive("spring-requests", "question", String.class, 10_000));
        } else {
            send(template);
            sendInTransactions(template);
            request(template);
            pull(template);
        }
        Events.print("sent");
        System.in.read();
        Runtime.getRuntime().halt(0);
    }

    private static Message<String> message(String body) {
        return MessageBuilder.withPayload(body).setHeader(RocketMQHeaders.KEYS, "key-" + body).setHeader("color", "blau ü")
                .build();
    }

    private static void send(RocketMQTemplate template) throws Exception {
        List<Message<String>> batch = new ArrayList<>();
        CountDownLatch answered = new CountDownLatch(COUNT);
        for (int number = 0; number < COUNT; number++) {
            String tag = number % 2 == 0 ? "red" : "blue";
            SendResult sent = template.syncSend("spring-orders:" + tag, message("sync-" + number));
            Events.print("stored", "body", "sync-" + number, "status", sent.getSendStatus(), "id", sent.getMsgId());
            template.asyncSend("spring-orders:" + tag, message("async-" + number), countDown(answered));
            template.sendOneWay("spring-orders:" + tag, message("oneway-" + number));
            batch.add(message("batch-" + number));
            for (String key : List.of("a", "b")) {
                template.syncSendOrderly("spring-ordered", key + "-" + number, key);
            }
        }
        template.syncSend("spring-orders", batch);
        template.convertAndSend("spring-objects", new Order(7, "Jäger"));
        template.syncSend("spring-delayed", message("by-level"), 10_000, 2);
        template.syncSendDelayTimeSeconds("spring-delayed", "by-seconds", 3);
        template.syncSend("spring-failing", "fails-once");
        Events.print("answered", "all", answered.await(WAIT_S, TimeUnit.SECONDS));
    }

    private static SendCallback countDown(CountDownLatch answered) {
        return new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                answered.countDown();
            }

            @Override
            public void onException(Throwable error) {
                Events.print("failed", "error", error);
            }
        };
    }

    private static void sendInTransactions(RocketMQTemplate template) {
        for (String body : List.of("commit-now", "rollback-now", "check-commit", "check-rollback")) {
            Events.print("transaction", "body", body, "state",
                    template.sendMessageInTransaction("spring-transactions", message(body), "argument").getLocalTransactionState());
        }
    }

    private static void request(RocketMQTemplate template) throws Exception {
        CountDownLatch answered = new CountDownLatch(1);
        template.sendAndReceive("spring-requests", "asynchronous question", new RocketMQLocalRequestCallback<String>() {
            @Override
            public void onSuccess(String text) {
                Events.print("reply", "body", text);
                answered.countDown();
            }

            @Override
            public void onException(Throwable error) {
                Events.print("failed", "error", error);
            }
        }, 10_000);
        answered.await(WAIT_S, TimeUnit.SECONDS);
    }

    private static void pull(RocketMQTemplate template) {
        for (int number = 0; number < COUNT; number++) {
            template.syncSend("spring-pulled", "pulled-" + number);
        }
        int count = 0;
        for (long until = System.nanoTime() + WAIT_S * 1_000_000_000; count < COUNT && System.nanoTime() < until;) {
            for (String body : template.receive(String.class, 1000)) {
                Events.print("got", "listener", "pull", "body", body);
                count++;
            }
        }
    }

    /** What is sent as JSON. */
    public static class Order {
        public int id;
        public String name;

        public Order() {
        }

        Order(int id, String name) {
            this.id = id;
            this.name = name;
        }
    }
}
