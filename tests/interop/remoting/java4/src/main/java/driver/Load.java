package driver;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Many numbered messages, and which of them each group got: too many to print each of them. */
final class Load {
    private static final int IN_FLIGHT = 256;
    private static final int BATCH = 32;
    private static final long PAUSE_MS = 50;
    private static final Map<String, Tally> TALLIES = new ConcurrentHashMap<>();

    private Load() {
    }

    /** What a group got, by topic. */
    private static final class Tally {
        private final Map<String, BitSet> seen = new TreeMap<>();
        private final Map<String, Long> doubles = new TreeMap<>();

        synchronized void note(List<MessageExt> messages) {
            for (MessageExt message : messages) {
                String text = new String(message.getBody(), StandardCharsets.UTF_8);
                int number = Integer.parseInt(text.substring(0, text.indexOf(' ')));
                BitSet numbers = seen.computeIfAbsent(message.getTopic(), topic -> new BitSet());
                if (numbers.get(number)) {
                    doubles.merge(message.getTopic(), 1L, Long::sum);
                }
                numbers.set(number);
            }
        }

        synchronized void describe(String topic, int count, Line answer) {
            BitSet numbers = seen.computeIfAbsent(topic, name -> new BitSet());
            answer.with("seen", numbers.get(0, count).cardinality()).with("doubles", doubles.getOrDefault(topic, 0L))
                    .with("missing", numbers.nextClearBit(0));
        }
    }

    /** Has a consumer count what it gets, for its group. */
    static void count(DefaultMQPushConsumer consumer, String group) {
        Tally tally = TALLIES.computeIfAbsent(group, name -> new Tally());
        consumer.setConsumeMessageBatchMaxSize(BATCH);
        consumer.setConsumeThreadMin(2);
        consumer.setConsumeThreadMax(2);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            tally.note(messages);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
    }

    /** Says how many of the first numbers of a topic a group got. */
    static void describe(Line command, Line answer) {
        TALLIES.computeIfAbsent(command.get("group"), name -> new Tally())
                .describe(command.get("topic"), command.number("count", 0), answer);
    }

    /** Sends numbers of a range in the background, at a rate per second, and prints "flooded" when all are stored. */
    static void flood(DefaultMQProducer producer, Line command) {
        Thread thread = new Thread(() -> {
            try {
                send(producer, command);
            } catch (Exception error) {
                new Line().with("event", "failed").with("error", error).print();
            }
        }, "flood");
        thread.setDaemon(true);
        thread.start();
    }

    private static void send(DefaultMQProducer producer, Line command) throws Exception {
        int from = command.number("from", 0);
        int to = from + command.number("count", 0);
        double rate = command.number("rate", 1000);
        byte[] padding = new byte[command.number("bytes", 200)];
        Arrays.fill(padding, (byte) 'x');
        String tail = " " + new String(padding, StandardCharsets.US_ASCII);
        Semaphore room = new Semaphore(IN_FLIGHT);
        AtomicLong repeats = new AtomicLong();
        long began = System.nanoTime();
        for (int number = from; number < to; number++) {
            while ((System.nanoTime() - began) / 1e9 * rate < number - from) {
                Thread.sleep(2);
            }
            room.acquire();
            Message message = new Message(command.get("topic"), "tag", (number + tail).getBytes(StandardCharsets.US_ASCII));
            sendOne(producer, message, room, repeats);
        }
        room.acquire(IN_FLIGHT);
        new Line().with("event", "flooded").with("name", command.get("name")).with("topic", command.get("topic"))
                .with("count", to - from).with("repeats", repeats).print();
    }

    private static void sendOne(DefaultMQProducer producer, Message message, Semaphore room, AtomicLong repeats) {
        SendCallback callback = new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                room.release();
            }

            @Override
            public void onException(Throwable error) {
                repeats.incrementAndGet();
                new Thread(() -> {
                    try {
                        Thread.sleep(PAUSE_MS);
                    } catch (InterruptedException interrupted) {
                        Thread.currentThread().interrupt();
                    }
                    sendOne(producer, message, room, repeats);
                }).start();
            }
        };
        try {
            producer.send(message, callback);
        } catch (Exception error) {
            callback.onException(error);
        }
    }
}
