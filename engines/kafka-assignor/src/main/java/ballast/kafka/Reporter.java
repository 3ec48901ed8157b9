package ballast.kafka;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Sends the windows of a consumer to the topic {@code ballast-<job>-reports}, on a thread of its own: a
 * broker that is away delays no record. The messages are those of {@code ballast/engines/kafka/messages.py}.
 */
final class Reporter extends Thread {
  private static final Logger LOG = LoggerFactory.getLogger(Reporter.class);
  private static final long EVERY_MS = 100;
  private static final int FORMAT = 1;
  /** How settings of the consumer begin that its connection needs; the rest is its own. */
  private static final List<String> CONNECTION =
      List.of("bootstrap.servers", "client.dns.lookup", "security.", "ssl.", "sasl.");

  private final MemberState state;
  private final KafkaProducer<byte[], byte[]> producer;
  private volatile boolean isStopping;

  Reporter(MemberState state, Map<String, ?> consumer) {
    super("ballast reports of " + state.node);
    setDaemon(true);
    this.state = state;
    Map<String, Object> settings = new HashMap<>();
    consumer.forEach(
        (name, value) -> {
          if (value != null && CONNECTION.stream().anyMatch(name::startsWith)) {
            settings.put(name, value);
          }
        });
    settings.put("acks", "all");
    settings.put("max.block.ms", 5_000);
    settings.put("delivery.timeout.ms", 10_000);
    settings.put("request.timeout.ms", 5_000);
    settings.put("linger.ms", 0);
    this.producer =
        new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
  }

  /** Sends what is due, if the broker answers, and ends. */
  void close() {
    isStopping = true;
    interrupt();
    try {
      join(5_000);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    }
  }

  @Override
  public void run() {
    while (!isStopping) {
      try {
        Thread.sleep(EVERY_MS);
        sendDue();
      } catch (InterruptedException error) {
        // close() asks for the last reports.
        break;
      } catch (RuntimeException error) {
        LOG.warn("reports of {} are not sent: {}", state.node, error.toString());
      }
    }
    try {
      sendDue();
      producer.close(java.time.Duration.ofSeconds(4));
    } catch (RuntimeException error) {
      LOG.warn("the last reports of {} are not sent: {}", state.node, error.toString());
    }
  }

  private void sendDue() {
    for (WindowMeter.Window window : state.meter.finished()) {
      send(windowFields(window));
    }
    for (MemberState.TakeUp takeUp : state.takeUps()) {
      Map<String, Object> fields = fields("take_up");
      fields.put("version", takeUp.version());
      fields.put("pause_ms", takeUp.pauseMs());
      send(fields);
    }
  }

  private void send(Map<String, Object> fields) {
    // Nothing is measured before a plan said how long windows are, and it says the job as well.
    String topic = "ballast-" + state.plan().job() + "-reports";
    byte[] value = Json.write(fields).getBytes(StandardCharsets.UTF_8);
    producer.send(
        new ProducerRecord<>(topic, value),
        (sent, error) -> {
          if (error != null) {
            LOG.warn("a report of {} is lost: {}", state.node, error.toString());
          }
        });
  }

  private Map<String, Object> fields(String kind) {
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put("format", FORMAT);
    fields.put("kind", kind);
    fields.put("node_id", state.node);
    fields.put("process_id", state.processId);
    return fields;
  }

  private Map<String, Object> windowFields(WindowMeter.Window window) {
    Map<String, Object> fields = fields("window");
    fields.put("start_ms", window.startMs());
    fields.put("length_ms", window.lengthMs());
    fields.put("version", window.version());
    fields.put("heartbeats", window.heartbeats());
    fields.put("is_whole", window.isWhole());
    List<Map<String, Object>> partitions = new ArrayList<>();
    window
        .uses()
        .forEach((partition, use) -> partitions.add(partitionFields(partition, use, window)));
    fields.put("partitions", partitions);
    return fields;
  }

  private static Map<String, Object> partitionFields(
      TopicPartition partition, WindowMeter.Use use, WindowMeter.Window window) {
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put("topic", partition.topic());
    fields.put("partition", partition.partition());
    fields.put("records", use.records);
    fields.put("bytes", use.bytes);
    fields.put("cpu_ms", use.cpuMs);
    // An interceptor does not see when a batch ends, so waiting for records cannot be told from work.
    fields.put("busy_ms", use.cpuMs);
    fields.put("is_whole", window.isWhole() && use.heldFromMs <= window.startMs());
    return fields;
  }
}
