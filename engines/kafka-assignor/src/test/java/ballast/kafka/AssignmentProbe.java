package ballast.kafka;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Reads groups from standard input, a line of JSON each, and writes what the assignor gives to every
 * member. A test compares it with the Python assignor.
 */
public final class AssignmentProbe {
  private AssignmentProbe() {}

  public static void main(String[] arguments) throws Exception {
    BufferedReader lines =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      System.out.println(Json.write(assigned((Map<?, ?>) Json.read(line))));
    }
  }

  private static Map<String, Object> assigned(Map<?, ?> group) {
    Map<String, ConsumerPartitionAssignor.Subscription> subscriptions = new HashMap<>();
    for (Object each : (List<?>) group.get("members")) {
      Map<?, ?> member = (Map<?, ?>) each;
      byte[] data = member.get("data").toString().getBytes(StandardCharsets.UTF_8);
      subscriptions.put(
          member.get("id").toString(),
          new ConsumerPartitionAssignor.Subscription(
              strings(member.get("topics")),
              ByteBuffer.wrap(data),
              partitions(member.get("owned")),
              -1,
              Optional.empty()));
    }
    Map<String, Object> result = new TreeMap<>();
    new BallastAssignor()
        .assign(
            cluster((Map<?, ?>) group.get("topics")),
            new ConsumerPartitionAssignor.GroupSubscription(subscriptions))
        .groupAssignment()
        .forEach((id, found) -> result.put(id, found.partitions().stream().map(AssignmentProbe::pair).toList()));
    return result;
  }

  private static List<Object> pair(TopicPartition partition) {
    return List.of(partition.topic(), partition.partition());
  }

  private static List<String> strings(Object values) {
    return ((List<?>) values).stream().map(String::valueOf).toList();
  }

  private static List<TopicPartition> partitions(Object values) {
    List<TopicPartition> found = new ArrayList<>();
    for (Object each : (List<?>) values) {
      List<?> pair = (List<?>) each;
      found.add(new TopicPartition(pair.get(0).toString(), ((Long) pair.get(1)).intValue()));
    }
    return found;
  }

  private static Cluster cluster(Map<?, ?> topics) {
    Set<PartitionInfo> partitions = new HashSet<>();
    topics.forEach(
        (topic, count) -> {
          for (int number = 0; number < (Long) count; number++) {
            partitions.add(
                new PartitionInfo(topic.toString(), number, Node.noNode(), new Node[0], new Node[0]));
          }
        });
    return new Cluster("probe", List.of(), partitions, Set.of(), Set.of());
  }
}
