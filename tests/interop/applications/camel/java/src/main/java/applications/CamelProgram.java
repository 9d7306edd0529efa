package applications;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.camel.Exchange;
import org.apache.camel.ProducerTemplate;
import org.apache.camel.builder.RouteBuilder;
import org.apache.camel.component.rocketmq.RocketMQConstants;
import org.apache.camel.impl.DefaultCamelContext;

/** Routes of Camel from and to topics, and requests that wait for a reply. */
public final class CamelProgram {
    private static final int COUNT = 20;

    private CamelProgram() {
    }

    public static void main(String[] args) throws Exception {
        Events.print("began");
        DefaultCamelContext context = new DefaultCamelContext();
        context.addRoutes(new Routes(args[0]));
        context.start();
        ProducerTemplate template = context.createProducerTemplate();
        for (int number = 0; number < COUNT; number++) {
            Map<String, Object> headers = new LinkedHashMap<>();
            headers.put(RocketMQConstants.OVERRIDE_MESSAGE_KEY, "key-" + number);
            headers.put(RocketMQConstants.OVERRIDE_TAG, number % 2 == 0 ? "red" : "blue");
            template.sendBodyAndHeaders("direct:orders", "order-" + number, headers);
        }
        Events.print("reply", "body", template.requestBody("direct:requests", "question", String.class));
        template.sendBody("direct:failing", "fails-once");
        Events.print("sent");
        System.in.read();
        Runtime.getRuntime().halt(0);
    }

    private static final class Routes extends RouteBuilder {
        private final String address;
        private boolean hasFailed;

        Routes(String address) {
            this.address = address;
        }

        private String from(String topic, String group, String tags) {
            return "rocketmq:" + topic + "?namesrvAddr=" + address + "&consumerGroup=" + group + "&subscribeTags=" + tags;
        }

        private String to(String topic, String more) {
            return "rocketmq:" + topic + "?namesrvAddr=" + address + "&waitForSendResult=true&producerGroup=" + topic
                    + "-producers" + more;
        }

        @Override
        public void configure() {
            from("direct:orders").to(to("camel-orders", ""));
            from("direct:failing").to(to("camel-failing", ""));
            from("direct:requests").to("rocketmq:camel-requests?namesrvAddr=" + address + "&producerGroup=camel-asking"
                    + "&replyToTopic=camel-replies&replyToConsumerGroup=camel-replies&requestTimeoutMillis=30000");
            from(from("camel-requests", "camel-requests", "*")).process(this::reply)
                    .to("rocketmq:camel-replies?namesrvAddr=" + address + "&producerGroup=camel-answering");
            // From topic to topic.
            from(from("camel-orders", "camel-all", "*")).process(exchange -> print("all", exchange))
                    .to(to("camel-copies", "&sendTag=copied"));
            from(from("camel-orders", "camel-red", "red")).process(exchange -> print("red", exchange));
            from(from("camel-copies", "camel-copies", "*")).process(exchange -> print("copies", exchange));
            from(from("camel-failing", "camel-failing", "*")).process(this::fail);
        }

        private void reply(Exchange exchange) {
            String key = exchange.getIn().getHeader(RocketMQConstants.KEY, String.class);
            exchange.getIn().setHeader(RocketMQConstants.OVERRIDE_MESSAGE_KEY, key);
            exchange.getIn().removeHeader(RocketMQConstants.OVERRIDE_TOPIC_NAME);
            exchange.getIn().setBody("reply to " + exchange.getIn().getBody(String.class));
        }

        private void fail(Exchange exchange) {
            print("failing", exchange);
            if (!hasFailed) {
                hasFailed = true;
                throw new IllegalStateException("the first time");
            }
        }

        private static void print(String route, Exchange exchange) {
            Events.print("got", "listener", route, "body", exchange.getIn().getBody(String.class),
                    "tag", exchange.getIn().getHeader(RocketMQConstants.TAG),
                    "keys", exchange.getIn().getHeader(RocketMQConstants.KEY),
                    "times", exchange.getIn().getHeader(RocketMQConstants.RECONSUME_TIMES),
                    "topic", exchange.getIn().getHeader(RocketMQConstants.TOPIC));
        }
    }
}
