package ballast.kafka;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;

/**
 * A plan as members hand it to each other: the node of each partition, by topic.
 *
 * @param job the job that the group belongs to; it names the topic of reports
 * @param version the version; 0 is no plan
 * @param windowMs the length of the windows that members measure; 0 if nobody said it yet
 * @param nodes the node of each partition, by topic
 */
record Plan(String job, long version, long windowMs, Map<String, List<String>> nodes) {
  static final Plan NONE = new Plan("", 0, 0, Map.of());

  /** The plan in the data of a member or an assignment; {@link #NONE} if there is no readable one. */
  static Plan of(Object value) {
    if (!(value instanceof Map<?, ?> fields)
        || !(fields.get("job") instanceof String job)
        || !(fields.get("version") instanceof Long version)
        || !(fields.get("window_ms") instanceof Long windowMs)
        || !(fields.get("placement") instanceof Map<?, ?> placement)
        || version < 0
        || windowMs < 1) {
      return NONE;
    }
    Map<String, List<String>> nodes = new TreeMap<>();
    for (Map.Entry<?, ?> entry : placement.entrySet()) {
      if (!(entry.getValue() instanceof List<?> names)) {
        return NONE;
      }
      List<String> copied = new ArrayList<>();
      names.forEach(name -> copied.add(String.valueOf(name)));
      nodes.put(String.valueOf(entry.getKey()), copied);
    }
    return new Plan(job, version, windowMs, nodes);
  }

  /** The newer of two plans; of equal versions the one that knows the length of windows. */
  static Plan newer(Plan one, Plan other) {
    if (one.version != other.version) {
      return one.version > other.version ? one : other;
    }
    return one.windowMs > 0 ? one : other;
  }

  /** The value that {@link #of} reads. */
  Map<String, Object> toFields() {
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put("job", job);
    fields.put("version", version);
    fields.put("window_ms", windowMs);
    fields.put("placement", nodes);
    return fields;
  }

  /** Whether it places anything. */
  boolean isPlaced() {
    return version > 0 && !nodes.isEmpty();
  }

  Map<TopicPartition, String> nodeByPartition() {
    Map<TopicPartition, String> found = new HashMap<>();
    nodes.forEach(
        (topic, names) -> {
          for (int number = 0; number < names.size(); number++) {
            found.put(new TopicPartition(topic, number), names.get(number));
          }
        });
    return found;
  }
}
