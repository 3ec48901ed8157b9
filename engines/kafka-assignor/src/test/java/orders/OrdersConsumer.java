package orders;

import java.io.FileInputStream;
import java.io.InputStream;
import java.io.Writer;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * The Java twin of {@code examples/orders/consumer.py}: counts the orders of each customer.
 *
 * <p>{@code OrdersConsumer PROPERTIES TOPIC LOG COST_US}. It knows nothing of Ballast: the assignor and the
 * interceptor are in its properties.
 */
public final class OrdersConsumer {
  private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

  private OrdersConsumer() {}

  public static void main(String[] arguments) throws Exception {
    Properties properties = new Properties();
    try (InputStream file = new FileInputStream(arguments[0])) {
      properties.load(file);
    }
    long costNs = 1_000 * Long.parseLong(arguments[3]);
    KafkaConsumer<String, String> consumer =
        new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
    AtomicBoolean isStopping = new AtomicBoolean();
    Thread main = Thread.currentThread();
    Runtime.getRuntime()
        .addShutdownHook(
            new Thread(
                () -> {
                  isStopping.set(true);
                  consumer.wakeup();
                  try {
                    main.join(20_000);
                  } catch (InterruptedException error) {
                    Thread.currentThread().interrupt();
                  }
                }));
    try (Writer log = Files.newBufferedWriter(Path.of(arguments[2]), StandardCharsets.UTF_8)) {
      consume(consumer, arguments[1], log, costNs, isStopping);
    }
  }

  private static void consume(
      KafkaConsumer<String, String> consumer,
      String topic,
      Writer log,
      long costNs,
      AtomicBoolean isStopping)
      throws Exception {
    Map<String, Integer> counts = new HashMap<>();
    consumer.subscribe(List.of(topic));
    try {
      while (!isStopping.get()) {
        for (ConsumerRecord<String, String> order : consumer.poll(Duration.ofMillis(100))) {
          process(order, counts, log, costNs);
        }
        // Before the offsets are committed, so that a killed process has reported what it committed.
        log.flush();
      }
    } catch (WakeupException error) {
      // Asked to stop.
    } finally {
      // Offsets of the last batch are committed when the consumer closes, and not before its lines.
      log.flush();
      consumer.close();
    }
  }

  private static void process(
      ConsumerRecord<String, String> order, Map<String, Integer> counts, Writer log, long costNs)
      throws Exception {
    long began = THREADS.getCurrentThreadCpuTime();
    String[] fields = order.value().split(" ");
    counts.merge(fields[1], 1, Integer::sum);
    long used = 0;
    while (used < costNs) {
      used = THREADS.getCurrentThreadCpuTime() - began;
    }
    log.write(
        String.format(
            Locale.ROOT,
            "%d %d %s %.4f %.3f%n",
            order.partition(),
            order.offset(),
            fields[0],
            System.currentTimeMillis() / 1e3,
            used / 1e6));
  }
}
