package ballast.kafka;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.TopicPartition;

/**
 * Which member gets which partition: the same rules as {@code ballast/engines/kafka/assignment.py}.
 *
 * <p>Every partition has an owner after the last rebalance. A partition whose node is not in the group
 * stays where it is or goes to the member with the fewest partitions.
 */
final class PlannedAssignment {
  /**
   * What a member says of itself when it joins.
   *
   * @param knownVersion the newest plan version that it knows
   */
  record Member(
      String id,
      String node,
      Set<String> topics,
      Set<TopicPartition> owned,
      int generation,
      long knownVersion) {}

  /**
   * The owner that every partition shall have in the end.
   *
   * @param displaced how many partitions have a node that is not in the group
   */
  record Target(long version, Map<TopicPartition, String> owner, int displaced) {}

  private static final Comparator<TopicPartition> ORDER =
      Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition);

  private final Collection<TopicPartition> partitions;
  private final List<Member> members;
  private final Plan plan;
  private final Map<TopicPartition, String> owners;

  /**
   * @param partitions all partitions of the topics
   * @param members the members that may get partitions; at least one
   * @param plan the newest plan that the leader knows
   */
  PlannedAssignment(Collection<TopicPartition> partitions, List<Member> members, Plan plan) {
    this.partitions = new TreeSet<>(ORDER);
    this.partitions.addAll(partitions);
    this.members = members.stream().sorted(Comparator.comparing(Member::id)).toList();
    this.plan = plan;
    this.owners = presentOwners();
  }

  /** The owner that each partition shall have. */
  Target target() {
    long newest = members.stream().mapToLong(Member::knownVersion).max().orElse(0);
    if (newest > plan.version()) {
      // Somebody knows a newer plan: nothing moves until the leader knows it too.
      Map<TopicPartition, String> kept = new HashMap<>(owners);
      kept.keySet().retainAll(partitions);
      return new Target(plan.version(), completed(kept), 0);
    }
    if (!plan.isPlaced()) {
      return new Target(0, completed(keptWithinQuota()), 0);
    }
    return planned();
  }

  /**
   * What each member gets in this round, by its id. A partition that changes its owner goes to nobody:
   * its owner gives it up and joins again (KIP-429).
   */
  Map<String, List<TopicPartition>> thisRound(Target target) {
    Set<TopicPartition> claimed = new HashSet<>();
    Map<String, List<TopicPartition>> result = new HashMap<>();
    for (Member member : members) {
      claimed.addAll(member.owned());
      result.put(member.id(), new ArrayList<>());
    }
    Map<TopicPartition, String> ordered = new TreeMap<>(ORDER);
    ordered.putAll(target.owner());
    ordered.forEach(
        (partition, member) -> {
          if (member.equals(owners.get(partition)) || !claimed.contains(partition)) {
            result.get(member).add(partition);
          }
        });
    return result;
  }

  /** The owner of each partition; of two that claim it the one with the newer generation. */
  private Map<TopicPartition, String> presentOwners() {
    Map<TopicPartition, List<Member>> claims = new HashMap<>();
    for (Member member : members) {
      for (TopicPartition partition : member.owned()) {
        claims.computeIfAbsent(partition, any -> new ArrayList<>()).add(member);
      }
    }
    Map<TopicPartition, String> found = new HashMap<>();
    claims.forEach(
        (partition, claimants) -> {
          int newest = claimants.stream().mapToInt(Member::generation).max().orElse(-1);
          List<Member> holders =
              claimants.stream().filter(member -> member.generation() == newest).toList();
          if (holders.size() == 1) {
            found.put(partition, holders.get(0).id());
          }
        });
    return found;
  }

  private Target planned() {
    Map<TopicPartition, String> nodes = plan.nodeByPartition();
    Map<String, Member> memberOf = memberOfNode(nodes);
    Map<TopicPartition, String> placed = new HashMap<>();
    List<TopicPartition> displaced = new ArrayList<>();
    for (TopicPartition partition : partitions) {
      Member member = memberOf.get(nodes.get(partition));
      if (member != null && member.topics().contains(partition.topic())) {
        placed.put(partition, member.id());
      } else {
        displaced.add(partition);
      }
    }
    for (TopicPartition partition : displaced) {
      if (owners.containsKey(partition)) {
        placed.put(partition, owners.get(partition));
      }
    }
    return new Target(plan.version(), completed(placed), displaced.size());
  }

  /** The member of each node; of several the one that has most of the node's partitions now. */
  private Map<String, Member> memberOfNode(Map<TopicPartition, String> nodes) {
    Map<String, Integer> has = new HashMap<>();
    Map<String, String> nodeOf = new HashMap<>();
    members.forEach(member -> nodeOf.put(member.id(), member.node()));
    owners.forEach(
        (partition, owner) -> {
          if (nodeOf.get(owner).equals(nodes.get(partition))) {
            has.merge(owner, 1, Integer::sum);
          }
        });
    Map<String, Member> found = new HashMap<>();
    // Members are sorted by id, so of equal ones the first stays.
    for (Member member : members) {
      Member before = found.get(member.node());
      int count = has.getOrDefault(member.id(), 0);
      if (before == null || count > has.getOrDefault(before.id(), 0)) {
        found.put(member.node(), member);
      }
    }
    return found;
  }

  /** What each member keeps, at most its share; members with the most get the larger shares. */
  private Map<TopicPartition, String> keptWithinQuota() {
    Map<String, List<TopicPartition>> held = new TreeMap<>();
    members.forEach(member -> held.put(member.id(), new ArrayList<>()));
    for (TopicPartition partition : partitions) {
      if (owners.containsKey(partition)) {
        held.get(owners.get(partition)).add(partition);
      }
    }
    int share = partitions.size() / members.size();
    int larger = partitions.size() % members.size();
    List<Map.Entry<String, List<TopicPartition>>> bySize = new ArrayList<>(held.entrySet());
    bySize.sort(
        Comparator.comparing((Map.Entry<String, List<TopicPartition>> each) -> -each.getValue().size())
            .thenComparing(Map.Entry::getKey));
    Map<TopicPartition, String> kept = new HashMap<>();
    for (int place = 0; place < bySize.size(); place++) {
      int quota = share + (place < larger ? 1 : 0);
      String member = bySize.get(place).getKey();
      bySize.get(place).getValue().stream()
          .limit(quota)
          .forEach(partition -> kept.put(partition, member));
    }
    return kept;
  }

  /** The placement with every other partition on the member that has the fewest. */
  private Map<TopicPartition, String> completed(Map<TopicPartition, String> placed) {
    Map<TopicPartition, String> complete = new HashMap<>(placed);
    Map<String, Integer> count = new HashMap<>();
    members.forEach(member -> count.put(member.id(), 0));
    complete.values().forEach(owner -> count.merge(owner, 1, Integer::sum));
    for (TopicPartition partition : partitions) {
      if (complete.containsKey(partition)) {
        continue;
      }
      // Members are sorted by id, and min gives the first of equal ones.
      members.stream()
          .filter(member -> member.topics().contains(partition.topic()))
          .min(Comparator.comparing(member -> count.get(member.id())))
          .ifPresent(
              member -> {
                complete.put(partition, member.id());
                count.merge(member.id(), 1, Integer::sum);
              });
    }
    return complete;
  }
}
