package ballast.kafka;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Assigns partitions by the plan in force: {@code partition.assignment.strategy} of every consumer of
 * the group.
 *
 * <p>The plan comes with the group's own messages: the member that the engine service runs hands it to
 * the leader, the leader to all members, and each member keeps it, so that the group stays under it while
 * the service is away. Cooperative (KIP-429). It never fails: an exception in an assignor would
 * stop every consumer of the group.
 */
public final class BallastAssignor implements ConsumerPartitionAssignor, Configurable {
  /** The name that the group agrees on; the same as that of the Python assignor. */
  public static final String NAME = "ballast";

  private static final Logger LOG = LoggerFactory.getLogger(BallastAssignor.class);

  private MemberState state = new MemberState("unnamed");

  @Override
  public void configure(Map<String, ?> configs) {
    state = MemberState.of(configs);
  }

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public short version() {
    return 1;
  }

  @Override
  public List<RebalanceProtocol> supportedProtocols() {
    return List.of(RebalanceProtocol.COOPERATIVE);
  }

  @Override
  public ByteBuffer subscriptionUserData(Set<String> topics) {
    return state.joining().forSubscription();
  }

  @Override
  public GroupAssignment assign(Cluster metadata, GroupSubscription group) {
    Map<String, Subscription> subscriptions = group.groupSubscription();
    try {
      return planned(metadata, subscriptions);
    } catch (RuntimeException | StackOverflowError error) {
      LOG.error("the plan cannot be followed; partitions are dealt out by their number", error);
      return byNumber(metadata, subscriptions);
    }
  }

  @Override
  public void onAssignment(Assignment assignment, ConsumerGroupMetadata metadata) {
    try {
      MemberData data = MemberData.of(assignment.userData());
      state.assigned(assignment.partitions(), metadata.generationId(), data);
    } catch (RuntimeException error) {
      LOG.error("an assignment is not measured", error);
    }
  }

  private GroupAssignment planned(Cluster metadata, Map<String, Subscription> subscriptions) {
    Plan plan = state.plan();
    List<PlannedAssignment.Member> members = new ArrayList<>();
    Set<String> topics = new HashSet<>();
    for (Map.Entry<String, Subscription> entry : subscriptions.entrySet()) {
      Subscription subscription = entry.getValue();
      MemberData data = MemberData.of(subscription.userData());
      // Of one version the trigger's counts: the length of windows may have changed.
      plan = data.isTrigger() ? Plan.newer(data.plan(), plan) : Plan.newer(plan, data.plan());
      if (!data.isTrigger()) {
        topics.addAll(subscription.topics());
        members.add(memberOf(entry.getKey(), subscription, data));
      }
    }
    Map<String, Assignment> result = new HashMap<>();
    if (members.isEmpty()) {
      subscriptions.keySet().forEach(id -> result.put(id, new Assignment(List.of())));
      return new GroupAssignment(result);
    }
    PlannedAssignment assignment =
        new PlannedAssignment(partitionsOf(metadata, topics), members, plan);
    PlannedAssignment.Target target = assignment.target();
    if (target.displaced() > 0) {
      LOG.warn(
          "plan v{}: {} partitions stay on other nodes, because theirs are not in the group",
          target.version(),
          target.displaced());
    }
    Map<String, List<TopicPartition>> round = assignment.thisRound(target);
    for (String id : subscriptions.keySet()) {
      ByteBuffer data = MemberData.forAssignment(target.version(), target.displaced(), plan);
      result.put(id, new Assignment(round.getOrDefault(id, List.of()), data));
    }
    return new GroupAssignment(result);
  }

  private static PlannedAssignment.Member memberOf(
      String id, Subscription subscription, MemberData data) {
    // Members of an older version of the protocol say their generation in the data alone.
    int generation = Math.max(data.generation(), subscription.generationId().orElse(-1));
    return new PlannedAssignment.Member(
        id,
        Optional.ofNullable(data.node()).orElse(id),
        Set.copyOf(subscription.topics()),
        Set.copyOf(subscription.ownedPartitions()),
        generation,
        data.version());
  }

  private static Set<TopicPartition> partitionsOf(Cluster metadata, Set<String> topics) {
    Set<TopicPartition> found = new HashSet<>();
    for (String topic : topics) {
      Integer count = metadata.partitionCountForTopic(topic);
      for (int number = 0; count != null && number < count; number++) {
        found.add(new TopicPartition(topic, number));
      }
    }
    return found;
  }

  /** The assignment of a group whose data are not to be understood: without any of them. */
  private static GroupAssignment byNumber(
      Cluster metadata, Map<String, Subscription> subscriptions) {
    List<PlannedAssignment.Member> members = new ArrayList<>();
    Set<String> topics = new HashSet<>();
    subscriptions.forEach(
        (id, subscription) -> {
          topics.addAll(subscription.topics());
          members.add(
              new PlannedAssignment.Member(
                  id, id, Set.copyOf(subscription.topics()),
                  Set.copyOf(subscription.ownedPartitions()), -1, 0));
        });
    PlannedAssignment assignment =
        new PlannedAssignment(partitionsOf(metadata, topics), members, Plan.NONE);
    Map<String, Assignment> result = new HashMap<>();
    assignment
        .thisRound(assignment.target())
        .forEach((id, partitions) -> result.put(id, new Assignment(partitions)));
    return new GroupAssignment(result);
  }
}
