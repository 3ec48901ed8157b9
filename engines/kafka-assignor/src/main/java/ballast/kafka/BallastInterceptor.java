package ballast.kafka;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerInterceptor;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Measures what each partition costs: {@code interceptor.classes} of every consumer of the group.
 *
 * <p>The CPU time of the polling thread from one batch of records to the next is that of the first one, and
 * its partitions share it by their records. Work on other threads is not measured. It never fails.
 */
public final class BallastInterceptor<K, V> implements ConsumerInterceptor<K, V> {
  private static final Logger LOG = LoggerFactory.getLogger(BallastInterceptor.class);

  private final ThreadMXBean threads = ManagementFactory.getThreadMXBean();
  private final Map<TopicPartition, long[]> batch = new HashMap<>();
  private MemberState state;
  private Reporter reporter;
  private long batchRecords;
  private long cpuNs;
  private long thread;

  @Override
  public void configure(Map<String, ?> configs) {
    state = MemberState.of(configs);
    try {
      reporter = new Reporter(state, configs);
      reporter.start();
    } catch (RuntimeException error) {
      LOG.error("nothing is measured: {}", error.toString());
    }
  }

  @Override
  public ConsumerRecords<K, V> onConsume(ConsumerRecords<K, V> records) {
    try {
      endBatch();
      state.meter.beat();
      beginBatch(records);
    } catch (RuntimeException error) {
      LOG.error("a batch is not measured", error);
    }
    return records;
  }

  @Override
  public void onCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {
    state.meter.beat();
  }

  @Override
  public void close() {
    if (reporter != null) {
      endBatch();
      reporter.close();
      state.closed();
    }
  }

  private void beginBatch(ConsumerRecords<K, V> records) {
    for (TopicPartition partition : records.partitions()) {
      List<ConsumerRecord<K, V>> found = records.records(partition);
      long bytes = 0;
      for (ConsumerRecord<K, V> record : found) {
        bytes += Math.max(0, record.serializedKeySize()) + Math.max(0, record.serializedValueSize());
      }
      batch.put(partition, new long[] {found.size(), bytes});
    }
    batchRecords = records.count();
    thread = Thread.currentThread().getId();
    cpuNs = threads.getCurrentThreadCpuTime();
  }

  private void endBatch() {
    boolean isSameThread = Thread.currentThread().getId() == thread;
    if (batchRecords > 0 && isSameThread) {
      double cpuMs = (threads.getCurrentThreadCpuTime() - cpuNs) / 1e6;
      batch.forEach(
          (partition, counts) ->
              state.meter.add(partition, counts[0], counts[1], cpuMs * counts[0] / batchRecords));
    }
    batch.clear();
    batchRecords = 0;
  }
}
