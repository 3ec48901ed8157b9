package ballast.kafka;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.TopicPartition;

/**
 * What one consumer knows of plans and of itself. Its assignor and its interceptor, which the consumer
 * makes on its own, share it by group and client id.
 */
final class MemberState {
  static final String NODE = "ballast.node.id";

  private static final Map<String, MemberState> BY_CLIENT = new ConcurrentHashMap<>();

  final String node;
  final String processId = UUID.randomUUID().toString().replace("-", "").substring(0, 12);
  final WindowMeter meter;

  private final List<TakeUp> takeUps = new ArrayList<>();
  private Plan plan = Plan.NONE;
  private Set<TopicPartition> held = Set.of();
  private int generation = -1;
  private long version;
  private long joinBeganNs;

  /** How long this member's part in a rebalance took. */
  record TakeUp(long version, double pauseMs) {}

  MemberState(String node) {
    this.node = node;
    this.meter = new WindowMeter(System::currentTimeMillis);
  }

  /** The state of the consumer with these settings. */
  static MemberState of(Map<String, ?> configs) {
    String client = text(configs, "client.id", "");
    String node = text(configs, NODE, text(configs, "group.instance.id", client));
    String key = text(configs, "group.id", "") + "/" + client + "/" + node;
    return BY_CLIENT.computeIfAbsent(key, any -> new MemberState(node));
  }

  synchronized Plan plan() {
    return plan;
  }

  synchronized long version() {
    return version;
  }

  /** What the member says of itself; it begins to join. */
  synchronized MemberData joining() {
    joinBeganNs = joinBeganNs == 0 ? System.nanoTime() : joinBeganNs;
    return new MemberData(node, generation, plan.version(), false, plan);
  }

  /** Notes what the member got; the plan that came with it is kept if it is newer. */
  synchronized void assigned(
      Collection<TopicPartition> partitions, int newGeneration, MemberData data) {
    plan = Plan.newer(data.plan(), plan);
    generation = newGeneration;
    version = data.version();
    Set<TopicPartition> now = new HashSet<>(partitions);
    meter.setLength(plan.windowMs());
    meter.setVersion(version);
    meter.hold(now.stream().filter(each -> !held.contains(each)).toList());
    meter.release(held.stream().filter(each -> !now.contains(each)).toList());
    held = now;
    if (version > 0 && joinBeganNs != 0) {
      takeUps.add(new TakeUp(version, (System.nanoTime() - joinBeganNs) / 1e6));
    }
    joinBeganNs = 0;
  }

  /** Notes that the consumer is closed; one that is made in its place knows the plan and holds nothing. */
  synchronized void closed() {
    meter.release(held);
    held = Set.of();
    generation = -1;
    joinBeganNs = 0;
  }

  /** The take-ups since the last call. */
  synchronized List<TakeUp> takeUps() {
    List<TakeUp> found = List.copyOf(takeUps);
    takeUps.clear();
    return found;
  }

  private static String text(Map<String, ?> configs, String name, String otherwise) {
    Object value = configs.get(name);
    return value == null || value.toString().isEmpty() ? otherwise : value.toString();
  }
}
