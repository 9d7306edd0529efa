package example;

import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Sends messages with the client of RocketMQ 4, and has them pushed to a listener. */
public final class Example {
    private static final long DEADLINE_S = 60;

    private Example() {
    }

    public static void main(String[] args) throws Exception {
        if (args.length != 4) {
            System.err.println("usage: example ADDRESS TOPIC GROUP COUNT");
            System.exit(2);
        }
        String address = args[0];
        String topic = args[1];
        String group = args[2];
        int count = Integer.parseInt(args[3]);

        DefaultMQProducer producer = new DefaultMQProducer(group + "-producers");
        producer.setNamesrvAddr(address);
        producer.start();
        for (int n = 1; n <= count; n++) {
            byte[] body = ("hello " + n + " from java").getBytes(StandardCharsets.UTF_8);
            producer.send(new Message(topic, "example", "java-" + n, body));
        }
        System.out.println("sent " + count);

        CountDownLatch missing = new CountDownLatch(count);
        Set<String> seen = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(address);
        consumer.subscribe(topic, "example");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                if (seen.add(message.getMsgId())) {
                    missing.countDown();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        boolean isComplete = missing.await(DEADLINE_S, TimeUnit.SECONDS);
        System.out.println("pushed " + seen.size());
        consumer.shutdown();
        producer.shutdown();
        System.exit(isComplete ? 0 : 1);
    }
}
