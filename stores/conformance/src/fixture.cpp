#include "oncebox/conformance/fixture.hpp"

#include <algorithm>
#include <ostream>
#include <stdexcept>

namespace oncebox::conformance {

using namespace std::chrono_literals;

void PrintTo(const StoreCase& store_case, std::ostream* out) {
  *out << store_case.store.name << ", on its " << to_string(store_case.queue);
}

std::vector<StoreCase> on_inbox() {
  std::vector<StoreCase> cases;
  for (StoreUnderTest& store : stores_under_test()) cases.push_back({std::move(store)});
  return cases;
}

std::vector<StoreCase> on_each_queue() {
  std::vector<StoreCase> cases;
  for (const StoreUnderTest& store : stores_under_test()) {
    cases.push_back({store, QueueKind::inbox});
    cases.push_back({store, QueueKind::outbox});
  }
  return cases;
}

std::vector<StoreCase> on_deliveries() {
  std::vector<StoreCase> cases = on_inbox();
  for (StoreCase& one : cases) one.queue = QueueKind::deliveries;
  return cases;
}

std::string case_name(const testing::TestParamInfo<StoreCase>& info) {
  switch (info.param.queue) {
    case QueueKind::inbox:
      return info.param.store.name;
    case QueueKind::outbox:
      return info.param.store.name + "Outbox";
    case QueueKind::deliveries:
      break;
  }
  return info.param.store.name + "Deliveries";
}

MessageKey key(std::string_view id, std::string_view source) { return {source, id}; }

Message message(std::string_view id, const MessageParts& parts) {
  return {.key = {parts.source, id},
          .topic = parts.topic,
          .payload = parts.payload ? *parts.payload : "payload of " + std::string(id),
          .headers = parts.headers,
          .hash = parts.hash,
          .priority = parts.priority,
          .partition_key = parts.partition,
          .due_at = parts.due_at,
          .expires_at = parts.expires_at};
}

ContentHash hash_of(std::string_view content) { return ContentHash::sha256_of(Payload(content)); }

std::vector<std::string> ids_of(const std::vector<ClaimedMessage>& claimed) {
  std::vector<std::string> ids;
  ids.reserve(claimed.size());
  for (const ClaimedMessage& one : claimed) ids.push_back(one.message.key.message_id.str());
  return ids;
}

ReapResult buried(const std::vector<std::string>& ids, const std::string& cause) {
  ReapResult result;
  for (const std::string& id : ids) result.add({key(id), Topic(MessageParts{}.topic), cause});
  return result;
}

std::vector<std::string> ids_of(const std::vector<MessageRecord>& records) {
  std::vector<std::string> ids;
  ids.reserve(records.size());
  for (const MessageRecord& one : records) ids.push_back(one.key.message_id.str());
  return ids;
}

std::string to_string(Situation situation) {
  switch (situation) {
    case Situation::seen:
      return "seen";
    case Situation::marked_processing:
      return "marked_processing";
    case Situation::ready:
      return "ready";
    case Situation::waiting:
      return "waiting";
    case Situation::leased:
      return "leased";
    case Situation::lapsed:
      return "lapsed";
    case Situation::done:
      return "done";
    case Situation::dead:
      return "dead";
  }
  return "unknown";
}

namespace {

/// Writes those of `these` that are not among `those`.
template <class T>
void list_missing(const std::vector<T>& these, const std::vector<T>& those, std::string_view label,
                  std::string& out) {
  for (const T& one : these) {
    if (std::find(those.begin(), those.end(), one) != those.end()) continue;
    out += "\n" + std::string(label) + testing::PrintToString(one);
  }
}

}  // namespace

testing::AssertionResult unchanged(const QueueDump& before, const QueueDump& after) {
  if (after == before) return testing::AssertionSuccess();
  std::string text = "something changed";
  list_missing(before.records, after.records, "before:", text);
  list_missing(after.records, before.records, "after:", text);
  list_missing(before.topics, after.topics, "before:", text);
  list_missing(after.topics, before.topics, "after:", text);
  return testing::AssertionFailure() << text;
}

QueueDump dump_of(QueueOperator& queue) {
  QueueDump dump;
  ListRequest request{.payloads = ListPayloads::include};
  do {
    MessagePage page = queue.list(request);
    for (MessageRecord& record : page.records) dump.records.push_back(std::move(record));
    request.after = page.next;
  } while (request.after);
  dump.topics = queue.stats().topics;
  return dump;
}

std::optional<ErrorCode> error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return std::nullopt;
}

StoreConformance::StoreConformance() { use_fresh_space(); }

QueueStore& StoreConformance::queue_of(Store& store) const { return store.queue(GetParam().queue); }

QueueOperator& StoreConformance::operator_of(Store& store) const {
  return store.queue_operator(GetParam().queue);
}

void StoreConformance::reopen() {
  store_.reset();
  store_ = harness_->open();
}

void StoreConformance::use_fresh_space() {
  store_.reset();
  harness_ = GetParam().store.make_harness();
  store_ = harness_->open();
}

EnqueueStatus StoreConformance::enqueue(const Message& message, const EnqueueOptions& options) {
  return queue().enqueue(message, options).status;
}

void StoreConformance::enqueue_ids(const std::vector<std::string>& ids) {
  for (const std::string& id : ids) ASSERT_EQ(enqueue(message(id)), EnqueueStatus::accepted) << id;
}

std::vector<ClaimedMessage> StoreConformance::claim(std::size_t limit) {
  return claim({.owner = alice, .limit = limit});
}

ClaimedMessage StoreConformance::claim_one(const OwnerToken& owner, Duration lease) {
  std::vector<ClaimedMessage> claimed = claim({.owner = owner, .lease = lease});
  if (claimed.size() == 1) return std::move(claimed.front());
  throw std::runtime_error("expected to claim one message, but got " +
                           testing::PrintToString(ids_of(claimed)));
}

std::vector<SettleStatus> statuses_of(const std::vector<SettleOutcome>& outcomes) {
  std::vector<SettleStatus> statuses;
  for (const SettleOutcome& outcome : outcomes) statuses.push_back(outcome.status);
  return statuses;
}

SettleOutcome StoreConformance::settle(const ClaimedMessage& claimed, const Verdict& verdict) {
  return queue().settle({.delivery = delivery_of(claimed), .verdict = verdict});
}

MessageRecord StoreConformance::record(std::string_view id, std::string_view source) {
  std::optional<MessageRecord> found = queue().find(key(id, source));
  if (found) return *std::move(found);
  throw std::runtime_error("nothing is stored under " + testing::PrintToString(key(id, source)));
}

void StoreConformance::put(Situation situation, const Message& message) {
  switch (situation) {
    case Situation::seen:
      queue().observe({.key = message.key, .hash = message.hash});
      return;
    case Situation::marked_processing:
      queue().observe({.key = message.key, .hash = message.hash});
      queue().mark({.key = message.key, .as = MarkAs::processing});
      return;
    case Situation::ready:
      enqueue(message);
      return;
    case Situation::waiting: {
      Message deferred = message;
      deferred.due_at = now() + 1h;
      enqueue(deferred);
      return;
    }
    case Situation::leased:
      enqueue(message);
      claim_one();
      return;
    case Situation::lapsed:
      enqueue(message);
      claim_one();
      advance(defaults::kLease);
      return;
    case Situation::done:
      enqueue(message);
      settle(claim_one(), Ack{});
      return;
    case Situation::dead:
      enqueue(message);
      settle(claim_one(), Fail{.error = "broken"});
      return;
  }
}

void StoreConformance::put_every_situation() {
  // The lease is the shortest of all and nothing may be claimable while another one is claimed.
  for (const Situation situation : {Situation::lapsed, Situation::done, Situation::dead}) {
    const std::string name = to_string(situation);
    const MessageParts parts{.topic = "order.paid", .hash = hash_of(name)};
    enqueue(message(name, parts));
    const ClaimedMessage claimed =
        claim_one(alice, situation == Situation::lapsed ? Duration{1s} : defaults::kLease);
    if (situation == Situation::done) settle(claimed, Ack{});
    if (situation == Situation::dead) settle(claimed, Fail{.error = "broken"});
  }
  for (const Situation situation : {Situation::leased, Situation::seen, Situation::waiting,
                                    Situation::marked_processing, Situation::ready}) {
    put(situation, to_string(situation));
  }
  advance(1s);
}

void StoreConformance::expect_refused(std::string_view what, ErrorCode code,
                                      const std::function<void()>& call,
                                      std::source_location where) {
  const testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()),
                                   std::string(what));
  const QueueDump inbox_before = dump_of(store().inbox_operator());
  const QueueDump outbox_before = dump_of(store().outbox_operator());
  EXPECT_EQ(error_of(call), code);
  EXPECT_TRUE(unchanged(inbox_before, dump_of(store().inbox_operator())));
  EXPECT_TRUE(unchanged(outbox_before, dump_of(store().outbox_operator())));
}

}  // namespace oncebox::conformance
