#pragma once

#include <gtest/gtest.h>
#include <cstddef>
#include <iosfwd>

#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "oncebox/conformance/harness.hpp"
#include "oncebox/conformance/print.hpp"
#include "oncebox/transaction.hpp"

namespace oncebox::conformance {

/// One store, and which of its queues a test works on.
struct StoreCase {
  StoreUnderTest store;
  QueueKind queue = QueueKind::inbox;
};

void PrintTo(const StoreCase& store_case, std::ostream* out);

/// What a suite is instantiated with: every store under test, on the inbox, or on inbox and outbox.
[[nodiscard]] std::vector<StoreCase> on_inbox();
[[nodiscard]] std::vector<StoreCase> on_each_queue();
/// On the deliveries: for what shows that these are such a queue, too.
[[nodiscard]] std::vector<StoreCase> on_deliveries();
[[nodiscard]] std::string case_name(const ::testing::TestParamInfo<StoreCase>& info);

/// What a test may say about a message; the rest is ordinary.
struct MessageParts {
  std::string source = "stripe";
  std::string topic = "order.created";
  std::optional<std::string> payload = {};  ///< absent: some text that names the id
  Headers headers = {};
  std::optional<ContentHash> hash = {};
  int priority = 0;
  std::optional<PartitionKey> partition = {};
  std::optional<TimePoint> due_at = {};
  std::optional<TimePoint> expires_at = {};
};

[[nodiscard]] MessageKey key(std::string_view id, std::string_view source = "stripe");
[[nodiscard]] Message message(std::string_view id, const MessageParts& parts = {});
[[nodiscard]] ContentHash hash_of(std::string_view content);
[[nodiscard]] std::vector<std::string> ids_of(const std::vector<ClaimedMessage>& claimed);
[[nodiscard]] std::vector<std::string> ids_of(const std::vector<MessageRecord>& records);
/// What tells of the deaths of these messages, as `message` makes them, and of nothing else.
[[nodiscard]] ReapResult buried(const std::vector<std::string>& ids, const std::string& cause);

/// What a message can be doing when a call meets it.
enum class Situation { seen, marked_processing, ready, waiting, leased, lapsed, done, dead };

[[nodiscard]] std::string to_string(Situation situation);

inline constexpr Situation kEverySituation[] = {
    Situation::seen,   Situation::marked_processing,
    Situation::ready,  Situation::waiting,
    Situation::leased, Situation::lapsed,
    Situation::done,   Situation::dead,
};

/// Everything that can be seen of a queue.
struct QueueDump {
  std::vector<MessageRecord> records;
  std::vector<TopicStats> topics;

  friend bool operator==(const QueueDump&, const QueueDump&) = default;
};

[[nodiscard]] QueueDump dump_of(QueueOperator& queue);

/// Whether two dumps are equal; if not, it says what differs and leaves out the rest.
[[nodiscard]] ::testing::AssertionResult unchanged(const QueueDump& before, const QueueDump& after);

/// What a call of settle answers, without what became of the messages.
[[nodiscard]] std::vector<SettleStatus> statuses_of(const std::vector<SettleOutcome>& outcomes);

/// The error code with which `call` fails; nothing when it does not.
[[nodiscard]] std::optional<ErrorCode> error_of(const std::function<void()>& call);

/// A fresh space of one store, and short verbs to work on it. Alice is who acts when nobody is
/// named.
class StoreConformance : public ::testing::TestWithParam<StoreCase> {
 public:
  const OwnerToken alice = OwnerToken::parse("01940000-0000-7000-8000-000000000a11");
  const OwnerToken bob = OwnerToken::parse("01940000-0000-7000-8000-000000000b0b");

 protected:
  StoreConformance();

  /// Names the requirements that a test shows; ends up in GoogleTest's XML and JSON reports.
  template <class... Ids>
  static void proves(Ids... ids) {
    std::string joined;
    ((joined += joined.empty() ? "" : " ", joined += ids), ...);
    RecordProperty("requirement", joined);
  }

  [[nodiscard]] Harness& harness() { return *harness_; }
  [[nodiscard]] Store& store() { return *store_; }
  [[nodiscard]] QueueStore& queue() { return queue_of(*store_); }
  [[nodiscard]] QueueOperator& queue_operator() { return operator_of(*store_); }
  [[nodiscard]] IdempotencyStore& keys() { return store_->keys(); }
  /// Changes what holds for these topics of the queue under test.
  void set_policy(const TopicPattern& topics, const TopicPolicyChange& change) {
    store_->policies().update(GetParam().queue, topics, change);
  }
  [[nodiscard]] QueueStore& queue_of(Store& store) const;
  [[nodiscard]] QueueOperator& operator_of(Store& store) const;

  /// A second handle on the same space, as another process would have.
  [[nodiscard]] std::shared_ptr<Store> open() { return harness_->open(); }
  /// Closes the only handle and opens the space again.
  void reopen();
  /// Leaves the space for good and goes on in another, empty one.
  void use_fresh_space();

  [[nodiscard]] TimePoint now() const { return harness_->now(); }
  void advance(Duration by) { harness_->advance(by); }

  EnqueueStatus enqueue(const Message& message, const EnqueueOptions& options = {});
  void enqueue_ids(const std::vector<std::string>& ids);

  std::vector<ClaimedMessage> claim(const ClaimRequest& request) { return queue().claim(request); }
  std::vector<ClaimedMessage> claim(std::size_t limit = 50);
  std::vector<std::string> claim_ids(std::size_t limit = 50) { return ids_of(claim(limit)); }
  /// Claims exactly one message; anything else fails the test.
  ClaimedMessage claim_one() { return claim_one(alice); }
  ClaimedMessage claim_one(const OwnerToken& owner, Duration lease = defaults::kLease);

  SettleOutcome settle(const ClaimedMessage& claimed, const Verdict& verdict = Ack{});

  /// What is stored; a key that is not there fails the test.
  [[nodiscard]] MessageRecord record(std::string_view id, std::string_view source = "stripe");
  [[nodiscard]] bool is_stored(std::string_view id) { return queue().find(key(id)).has_value(); }

  /// Brings a new message into a situation. Nothing else may be claimable meanwhile.
  void put(Situation situation, const Message& message);
  void put(Situation situation, std::string_view id) { put(situation, message(id)); }
  /// One message in every situation, named after it, of two topics; alice holds the leased one.
  void put_every_situation();

  [[nodiscard]] QueueDump dump() { return dump_of(queue_operator()); }

  /// `call` throws this code, and nothing of either queue has changed.
  void expect_refused(std::string_view what, ErrorCode code, const std::function<void()>& call,
                      std::source_location where = std::source_location::current());

 private:
  std::unique_ptr<Harness> harness_;
  std::shared_ptr<Store> store_;
};

}  // namespace oncebox::conformance
