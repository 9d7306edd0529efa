package guarded;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientConfigurationBuilder;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/**
 * Sends, receives and acknowledges as its input says, with TLS and credentials as its environment says; see the README
 * of the languages.
 */
public final class Guarded {
    // An exception of the client has no getter for it.
    private static final Pattern CODE = Pattern.compile("response-code=(\\d{5})");
    private static final Duration AWAIT = Duration.ofSeconds(5);
    private static final Duration INVISIBLE = Duration.ofSeconds(30);
    private static final int BATCH = 16;

    private interface Step {
        void run() throws Exception;
    }

    private final FileOutputStream output = new FileOutputStream(FileDescriptor.out);
    private final ClientServiceProvider provider = ClientServiceProvider.loadService();
    private final ClientConfiguration configuration;
    private final String topic;
    private final String group;
    private Producer producer;
    private SimpleConsumer consumer;

    private Guarded(String endpoint, String topic, String group) {
        // The client encrypts unless told otherwise, and believes any certificate.
        ClientConfigurationBuilder builder =
                ClientConfiguration.newBuilder().setEndpoints(endpoint).enableSsl("on".equals(System.getenv("TLS")));
        String accessKey = System.getenv().getOrDefault("ACCESS_KEY", "");
        if (!accessKey.isEmpty()) {
            builder.setCredentialProvider(
                    new StaticSessionCredentialsProvider(accessKey, System.getenv("ACCESS_SECRET")));
        }
        this.configuration = builder.build();
        this.topic = topic;
        this.group = group;
    }

    public static void main(String[] args) throws Exception {
        if (args.length != 3) {
            System.err.println("usage: guarded ENDPOINT TOPIC GROUP");
            System.exit(2);
        }
        Guarded program = new Guarded(args[0], args[1], args[2]);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            program.carryOut(words[0], words.length > 1 ? words[1] : "");
        }
        // Some of the client's threads would keep the process alive for a while.
        System.exit(0);
    }

    private void carryOut(String command, String body) throws IOException {
        switch (command) {
            case "producer" -> attempt(command, body, this::startProducer);
            case "consumer" -> attempt(command, body, this::startConsumer);
            case "send" -> attempt(command, body, () -> producer.send(provider.newMessageBuilder()
                    .setTopic(topic).setBody(body.getBytes(StandardCharsets.UTF_8)).build()));
            case "receive" -> attempt(command, body, this::receive);
            default -> throw new IllegalArgumentException("no command " + command);
        }
    }

    private void startProducer() throws Exception {
        producer = provider.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic).build();
    }

    private void startConsumer() throws Exception {
        consumer = provider.newSimpleConsumerBuilder()
                .setClientConfiguration(configuration)
                .setConsumerGroup(group)
                .setAwaitDuration(AWAIT)
                .setSubscriptionExpressions(Map.of(topic, FilterExpression.SUB_ALL))
                .build();
    }

    private void receive() throws Exception {
        for (MessageView message : consumer.receive(BATCH, INVISIBLE)) {
            String body = StandardCharsets.UTF_8.decode(message.getBody()).toString();
            attempt("ack", body, () -> consumer.ack(message));
        }
    }

    /** Does a step and prints its outcome. */
    private void attempt(String step, String body, Step action) throws IOException {
        String error = "";
        try {
            action.run();
        } catch (Exception e) { // whatever the client throws is what this program is to tell of
            e.printStackTrace();
            for (Throwable cause = e; cause != null; cause = cause.getCause()) {
                error += cause + "; ";
            }
        }
        Matcher code = CODE.matcher(error);
        output.write(String.format("{\"step\":\"%s\",\"body\":\"%s\",\"code\":%s,\"error\":\"%s\"}%n",
                step, body, code.find() ? code.group(1) : "0", escaped(error)).getBytes(StandardCharsets.UTF_8));
    }

    private static String escaped(String text) {
        return text.replace("\\", "\\\\").replace("\"", "\\\"").replaceAll("\\p{Cntrl}", " ");
    }
}
