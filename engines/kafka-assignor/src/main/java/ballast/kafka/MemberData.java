package ballast.kafka;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * What a member adds to its subscription, and the leader to an assignment, as JSON.
 *
 * @param node the node that the member is; null if it does not say
 * @param generation the generation that it got its partitions in; -1 for none
 * @param version the newest plan version that it knows
 * @param isTrigger whether it only starts rebalances and gets no partitions
 * @param plan the plan that it carries
 */
record MemberData(String node, int generation, long version, boolean isTrigger, Plan plan) {
  private static final MemberData UNREADABLE = new MemberData(null, -1, 0, false, Plan.NONE);

  /** The data in a buffer; of unreadable data nothing is known. */
  static MemberData of(ByteBuffer data) {
    try {
      if (data == null || !data.hasRemaining()) {
        return UNREADABLE;
      }
      Object value = Json.read(StandardCharsets.UTF_8.decode(data.duplicate()).toString());
      if (!(value instanceof Map<?, ?> fields)) {
        return UNREADABLE;
      }
      Plan plan = Plan.of(fields.get("plan"));
      long version = fields.get("version") instanceof Long found ? Math.max(0, found) : 0;
      return new MemberData(
          fields.get("node") instanceof String node && !node.isEmpty() ? node : null,
          fields.get("generation") instanceof Long found ? found.intValue() : -1,
          version,
          Boolean.TRUE.equals(fields.get("trigger")),
          plan);
    } catch (RuntimeException error) {
      return UNREADABLE;
    }
  }

  /** The data of a member of this library, with the plan that it got last. */
  ByteBuffer forSubscription() {
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put("node", node);
    fields.put("generation", generation);
    fields.put("version", version);
    if (plan.windowMs() > 0) {
      fields.put("plan", plan.toFields());
    }
    return bytes(fields);
  }

  /** The data of an assignment. */
  static ByteBuffer forAssignment(long version, int displaced, Plan plan) {
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put("version", version);
    fields.put("displaced", displaced);
    if (plan.windowMs() > 0) {
      fields.put("plan", plan.toFields());
    }
    return bytes(fields);
  }

  private static ByteBuffer bytes(Map<String, Object> fields) {
    return ByteBuffer.wrap(Json.write(fields).getBytes(StandardCharsets.UTF_8));
  }
}
