package orders;

import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.Writer;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * The Java twin of {@code examples/orders/consumer.py}: counts the orders of each customer.
 *
 * <p>{@code OrdersConsumer PROPERTIES TOPIC LOG COST_US}. It knows nothing of Ballast: the assignor and the
 * interceptor are in its properties.
 *
 * <p>It commits before it gives a partition up, and before it ends: a consumer cannot commit while its
 * group rebalances, and what it has not committed is processed again.
 */
public final class OrdersConsumer implements ConsumerRebalanceListener {
  private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
  private static final long COMMIT_EVERY_NS = 1_000_000_000L;
  private static final long STOP_LIMIT_NS = 15_000_000_000L;

  private final KafkaConsumer<String, String> consumer;
  private final Writer log;
  private final long costNs;
  private final Map<String, Integer> counts = new HashMap<>();
  private final Map<TopicPartition, OffsetAndMetadata> done = new HashMap<>();
  private long committedNs = System.nanoTime();

  private OrdersConsumer(KafkaConsumer<String, String> consumer, Writer log, long costNs) {
    this.consumer = consumer;
    this.log = log;
    this.costNs = costNs;
  }

  public static void main(String[] arguments) throws IOException {
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
      new OrdersConsumer(consumer, log, costNs).run(arguments[1], isStopping);
    }
  }

  private void run(String topic, AtomicBoolean isStopping) throws IOException {
    consumer.subscribe(List.of(topic), this);
    try {
      while (!isStopping.get()) {
        for (ConsumerRecord<String, String> order : consumer.poll(Duration.ofMillis(100))) {
          process(order);
        }
        // Before the offsets are committed, so that a killed process has reported what it committed.
        log.flush();
        if (System.nanoTime() - committedNs > COMMIT_EVERY_NS) {
          commit();
        }
      }
    } catch (WakeupException error) {
      // Asked to stop.
    } finally {
      log.flush();
      try {
        commitLast();
      } finally {
        consumer.close();
      }
    }
  }

  /** Commits what was processed; while the group rebalances that has to wait until it is over. */
  private void commitLast() {
    long end = System.nanoTime() + STOP_LIMIT_NS;
    while (System.nanoTime() < end) {
      try {
        consumer.commitSync(done);
        return;
      } catch (RebalanceInProgressException error) {
        finishRebalance();
      } catch (WakeupException error) {
        // Asked to stop while nothing waited.
      }
    }
  }

  private void finishRebalance() {
    try {
      consumer.pause(consumer.assignment());
      // Records of partitions that are new are not processed, and so not committed.
      consumer.poll(Duration.ofMillis(100));
    } catch (WakeupException error) {
      // As above.
    }
  }

  private void commit() {
    committedNs = System.nanoTime();
    try {
      consumer.commitSync(done);
    } catch (RebalanceInProgressException error) {
      // The listener commits what is given up; the rest is committed next time.
    }
  }

  @Override
  public void onPartitionsAssigned(Collection<TopicPartition> partitions) {}

  @Override
  public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
    Map<TopicPartition, OffsetAndMetadata> last = new HashMap<>(done);
    last.keySet().retainAll(partitions);
    done.keySet().removeAll(partitions);
    if (!last.isEmpty()) {
      consumer.commitSync(last);
    }
  }

  @Override
  public void onPartitionsLost(Collection<TopicPartition> partitions) {
    done.keySet().removeAll(partitions);
  }

  private void process(ConsumerRecord<String, String> order) throws IOException {
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
    done.put(
        new TopicPartition(order.topic(), order.partition()),
        new OffsetAndMetadata(order.offset() + 1));
  }
}
