// Processes that send in transactions, and processes that publish, are killed at every step, and
// started again. A receiver outside of them keeps a ledger of what it has accepted.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "effects_fixture.hpp"
#include "ledger.hpp"
#include "oncebox/defaults.hpp"
#include "oncebox/open_store.hpp"
#include "oncebox/publish/delivery.hpp"
#include "oncebox/publish/endpoints.hpp"
#include "oncebox/testing/child_process.hpp"
#include "oncebox/testing/scripted_server.hpp"
#include "oncebox/testing/temporary_folder.hpp"
#include "oncebox/webhook/webhook_signer.hpp"
#include "watched.hpp"

namespace oncebox::effects {
namespace {

using namespace std::chrono_literals;
using testing::ChildProcess;
using testing::Reaction;
using testing::ReceivedRequest;
using workers::EventKind;

constexpr const char* kSecret = "whsec_Zmlyc3Qtc2VjcmV0";
/// A sender begins so many transactions, and rolls back one in four. It is killed after so many of
/// them at the earliest, and has then sent so many messages.
constexpr unsigned kTransactions = 24;
constexpr unsigned kSurelyEnded = 16;
constexpr unsigned kSurelySent = 2 * kSurelyEnded * 3 / 4;
/// The endpoints, and the topics that each of them wants.
const std::map<std::string, TopicPattern> kEndpoints{
    {"all", "*"}, {"orders", "order.*"}, {"mail", "mail.*"}};

struct Accepted {
  std::string endpoint;
  std::string id;
  std::string body;
};

/// All endpoints, each at a path of its name.
class Receiver {
 public:
  [[nodiscard]] std::string url(const std::string& endpoint) const {
    return server_.url() + "/" + endpoint;
  }
  [[nodiscard]] std::vector<Accepted> accepted() const { return accepted_.get(); }
  [[nodiscard]] std::vector<std::string> odd() const { return odd_.get(); }
  /// Kills this process while it waits for the answer to the n-th request from now on, which is
  /// accepted.
  void kill(int pid, int request) {
    victim_ = pid;
    requests_until_kill_ = request;
  }

 private:
  [[nodiscard]] Reaction react(const ReceivedRequest& request) {
    const auto field = [&](const char* name) {
      const auto found = request.fields.find(name);
      return found == request.fields.end() ? "" : found->second;
    };
    const std::string id = field("webhook-id");
    const std::string endpoint = request.target.substr(1);
    if (field("webhook-signature") != signer_.sign(id, field("webhook-timestamp"), request.body)) {
      odd_.change([&](auto& all) { all.push_back("not signed: " + id); });
      return {.status = 401};
    }
    if (is_refused_once(id) && refused_.insert(endpoint + id).second) return {.status = 503};
    accepted_.change([&](auto& all) { all.push_back({endpoint, id, request.body}); });
    if (requests_until_kill_ > 0 && --requests_until_kill_ == 0) ::kill(victim_, SIGKILL);
    return {};
  }
  [[nodiscard]] static bool is_refused_once(const std::string& id) { return id.ends_with('5'); }

  const webhook::WebhookSigner signer_{{kSecret}};
  std::set<std::string> refused_;  // the script is called for one request at a time
  Watched<std::vector<Accepted>> accepted_;
  Watched<std::vector<std::string>> odd_;
  std::atomic<int> victim_ = 0;
  std::atomic<int> requests_until_kill_ = 0;
  testing::ScriptedServer server_{
      [this](const ReceivedRequest& request) { return react(request); }};
};

/// How a process ends.
struct Death {
  std::string step = "none";
  unsigned number = 0;
  unsigned us_later = 0;
};

class KilledPublisher : public ::testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    seed_ = seed_of_this_run();
    random_.seed(seed_);
    fmt::print("ONCEBOX_CRASH_SEED={}\n", seed_);
    const auto store = open_store(place_->url());
    for (const QueueKind queue : {QueueKind::outbox, QueueKind::deliveries}) {
      store->policies().update(queue, "*", {.max_deliveries = 1'000});
    }
    for (const auto& [name, topics] : kEndpoints) {
      publish::save_endpoint(*store,
                             {.name = name,
                              .url = receiver_.url(name),
                              .topics = {topics},
                              .secrets = {{fmt::format("literal:{}", kSecret)}},
                              .timeout = 60s,
                              .allow_private = true},
                             {.max_attempts = 1'000, .backoff = 10ms, .max_delay = 50ms});
    }
  }

  [[nodiscard]] unsigned below(unsigned bound) { return static_cast<unsigned>(random_()) % bound; }

  [[nodiscard]] std::string ledger() const { return folder_.file("ledger"); }

  [[nodiscard]] static std::vector<std::string> words_of(const Death& death) {
    return {death.step, std::to_string(death.number), std::to_string(death.us_later)};
  }

  /// The next transactions, of which the last may be one that the process does not live to end.
  [[nodiscard]] std::unique_ptr<ChildProcess> start_sender(const Death& death) {
    std::vector<std::string> command{
        ONCEBOX_PUBLISHING_WORKER, "send",   place_->url(),         place_->connection(),
        place_->table(),           ledger(), std::to_string(next_), std::to_string(kTransactions)};
    std::ranges::copy(words_of(death), std::back_inserter(command));
    next_ += kTransactions;
    return std::make_unique<ChildProcess>(command);
  }
  [[nodiscard]] std::vector<std::string> publisher(const Death& death) const {
    std::vector<std::string> command{ONCEBOX_PUBLISHING_WORKER, "publish", place_->url()};
    std::ranges::copy(words_of(death), std::back_inserter(command));
    return command;
  }

  /// In turn before, during and after the commit, or not at all.
  [[nodiscard]] Death death_of_sender() {
    const unsigned number = kSurelyEnded + 1 + below(kTransactions - kSurelyEnded);
    switch (senders_++ % 4) {
      case 0:
        return {"before-commit", number};
      case 1:
        return {"before-commit", number, 1 + below(2'000)};
      case 2:
        return {"after-commit", number};
      default:
        return {};
    }
  }

  /// Sends, while a process publishes that dies by itself or by others.
  void run_until_it_dies(const std::vector<std::string>& command, int dies_at_request = 0) {
    const Death death = death_of_sender();
    const auto sender = start_sender(death);
    ChildProcess publisher(command);
    if (dies_at_request > 0) receiver_.kill(publisher.pid(), dies_at_request);
    const std::optional<int> status = publisher.wait_for(120s);
    ASSERT_TRUE(status && testing::was_killed(*status)) << "it was to die";
    expect_end(*sender, death);
    place_->wait_for_the_dead();
  }

  static void expect_end(ChildProcess& sender, const Death& death) {
    const std::optional<int> status = sender.wait_for(120s);
    ASSERT_TRUE(status);
    EXPECT_EQ(testing::was_killed(*status), death.step != "none");
    EXPECT_EQ(testing::exited_well(*status), death.step == "none");
  }

  void drain() {
    ChildProcess process({ONCEBOX_PUBLISHING_WORKER, "drain", place_->url()});
    const std::optional<int> status = process.wait_for(120s);
    ASSERT_TRUE(status && testing::exited_well(*status));
    place_->wait_for_the_dead();
  }

  void expect_all_well();

  std::unique_ptr<Place> place_ = make_place(GetParam());
  testing::TemporaryFolder folder_;
  Receiver receiver_;
  unsigned seed_ = 0;
  unsigned next_ = 0;
  unsigned senders_ = 0;
  std::mt19937 random_;

 private:
  [[nodiscard]] std::set<unsigned> committed();
  void expect_sound(const MessageRecord& record) const;
  void expect_delivered(Store& store, const std::string& endpoint, const std::string& id,
                        std::size_t times);
};

INSTANTIATE_TEST_SUITE_P(Stores, KilledPublisher,
                         ::testing::Values(Backend::sqlite, Backend::postgresql),
                         [](const auto& tested) {
                           return tested.param == Backend::sqlite ? "sqlite" : "postgresql";
                         });

/// The transactions whose rows are there. It is as their sender was told, unless it did not live to
/// hear it.
std::set<unsigned> KilledPublisher::committed() {
  std::map<unsigned, std::string> told;
  for (const workers::Event& event : workers::read_ledger(ledger())) {
    std::string& word = told[static_cast<unsigned>(std::stoul(event.id))];
    if (event.kind == EventKind::answered) word = event.word;
  }
  std::set<unsigned> numbers;
  for (const auto& [number, word] : told) {
    const bool is_there = place_->number(fmt::format("SELECT count(*) FROM {} WHERE name = '{}'",
                                                     place_->table(), number)) == 1;
    if (is_there) numbers.insert(number);
    if (!word.empty()) {
      EXPECT_EQ(is_there, word == "committed") << number;
    }
    EXPECT_FALSE(is_there && number % 4 == 3) << number << " was rolled back";
  }
  return numbers;
}

/// It is done, and what is told of its attempts adds up.
void KilledPublisher::expect_sound(const MessageRecord& record) const {
  const std::string key = record.key.message_id.str();
  const MessageHistory& history = record.history;
  EXPECT_EQ(record.state, State::done) << key;
  EXPECT_FALSE(record.lease) << key;
  // What was claimed and given back untouched was no attempt.
  const int attempts = history.lapses + history.attempt + 1;
  EXPECT_GE(history.deliveries, attempts) << key;
  if (attempts == 1) {
    EXPECT_TRUE(record.attempts.empty()) << key;
  } else if (static_cast<std::size_t>(attempts) <= defaults::kKeptAttempts) {
    const auto count = [&](AttemptOutcome outcome) {
      return std::ranges::count(record.attempts, outcome, &Attempt::outcome);
    };
    EXPECT_EQ(count(AttemptOutcome::lapsed), history.lapses) << key;
    EXPECT_EQ(count(AttemptOutcome::abandoned), history.attempt) << key;
    EXPECT_EQ(count(AttemptOutcome::succeeded), 1) << key;
    EXPECT_EQ(record.attempts.back().outcome, AttemptOutcome::succeeded) << key;
  }
}

void KilledPublisher::expect_delivered(Store& store, const std::string& endpoint,
                                       const std::string& id, std::size_t times) {
  const auto sent = store.outbox().find(MessageKey{"shop", MessageId(id)});
  const auto delivery =
      store.deliveries().find(publish::delivery_key({"shop", MessageId(id)}, endpoint));
  ASSERT_TRUE(sent && delivery) << id << " to " << endpoint;
  expect_sound(*sent);
  expect_sound(*delivery);
  EXPECT_LT(delivery->history.duplicates, sent->history.deliveries) << "one for each fan-out";
  EXPECT_GE(times, 1U) << id << " is lost for " << endpoint;
  EXPECT_LE(times, static_cast<std::size_t>(delivery->history.deliveries)) << id;
}

void KilledPublisher::expect_all_well() {
  using Goal = std::pair<std::string, std::string>;  // endpoint and id
  std::map<Goal, std::size_t> times;
  std::map<std::pair<std::string, unsigned>, unsigned> newest;  // of an endpoint and a partition
  for (const Accepted& accepted : receiver_.accepted()) {
    const bool is_first = ++times[{accepted.endpoint, accepted.id}] == 1;
    const std::string id = accepted.id.substr(accepted.id.find(':') + 1);
    const std::size_t dash = id.find('-');
    ASSERT_NE(dash, std::string::npos) << accepted.id;
    EXPECT_EQ(accepted.body, fmt::format("{} {}", id.substr(0, dash), id.substr(dash + 1)));
    if (!is_first || !id.starts_with("order-")) continue;
    const auto number = static_cast<unsigned>(std::stoul(id.substr(dash + 1)));
    unsigned& last = newest[{accepted.endpoint, number % 3}];
    EXPECT_LE(last, number) << "passed by " << last << " towards " << accepted.endpoint;
    last = number;
  }
  const auto store = open_store(place_->url());
  const std::set<unsigned> numbers = committed();
  std::size_t goals = 0;
  for (const unsigned number : numbers) {
    for (const auto& [endpoint, topics] : kEndpoints) {
      for (const char* const kind : {"order", "mail"}) {
        if (!topics.matches(std::string(kind) == "order" ? "order.paid" : "mail.sent")) continue;
        const std::string id = fmt::format("{}-{}", kind, number);
        ASSERT_NO_FATAL_FAILURE(
            expect_delivered(*store, endpoint, id, times[{endpoint, "shop:" + id}]));
        ++goals;
      }
    }
  }
  EXPECT_EQ(times.size(), goals) << "something came that nobody has committed";
  EXPECT_EQ(store->outbox_operator().count({}), 2 * numbers.size());
  EXPECT_EQ(store->deliveries_operator().count({}), goals);
  EXPECT_EQ(receiver_.odd(), std::vector<std::string>{});
  fmt::print("{} transactions of {}, {} accepted for {}\n", numbers.size(), next_,
             receiver_.accepted().size(), goals);
}

TEST_P(KilledPublisher, AtEveryStepLosesNothingAndSendsNothingThatWasRolledBack) {
  RecordProperty("requirement", "R-37, R-25");
  SCOPED_TRACE(fmt::format("ONCEBOX_CRASH_SEED={}", seed_));
  // At "settling" all is done, and nothing of it recorded: a delivery has been accepted.
  for (const char* const step :
       {"outbox-claimed", "delivery-enqueued", "outbox-settling", "outbox-settled",
        "delivery-claimed", "delivery-settling", "delivery-settled"}) {
    SCOPED_TRACE(step);
    ASSERT_NO_FATAL_FAILURE(run_until_it_dies(publisher({step, 1 + below(kSurelySent)})));
  }
  // While it is being recorded.
  for (const char* const step : {"outbox-settling", "delivery-settling"}) {
    for (int time = 0; time < 2; ++time) {
      SCOPED_TRACE(step);
      ASSERT_NO_FATAL_FAILURE(
          run_until_it_dies(publisher({step, 1 + below(kSurelySent), 1 + below(2'000)})));
    }
  }
  // Accepted by the receiver, of which the publisher does not live to hear.
  ASSERT_NO_FATAL_FAILURE(
      run_until_it_dies(publisher({}), 1 + static_cast<int>(below(kSurelySent))));
  drain();
  expect_all_well();
}

TEST_P(KilledPublisher, AtAnyMomentLosesNothingAndSendsNothingThatWasRolledBack) {
  RecordProperty("requirement", "R-37, R-25");
  SCOPED_TRACE(fmt::format("ONCEBOX_CRASH_SEED={}", seed_));
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment.
  const char* const kills = std::getenv("ONCEBOX_CRASH_KILLS");
  for (int left = kills != nullptr ? std::stoi(kills) : 8; left > 0; --left) {
    const Death death = death_of_sender();
    const auto sender = start_sender(death);
    ChildProcess process(publisher({}));
    ASSERT_FALSE(process.wait_for(std::chrono::milliseconds(20 + below(400))));
    ASSERT_TRUE(testing::was_killed(process.kill()));
    expect_end(*sender, death);
    place_->wait_for_the_dead();
  }
  drain();
  expect_all_well();
}

TEST_P(KilledPublisher, AtAnyWriteLosesNothingAndSendsNothingThatWasRolledBack) {
  RecordProperty("requirement", "R-37, R-25");
  SCOPED_TRACE(fmt::format("ONCEBOX_CRASH_SEED={}", seed_));
  const char* const call = GetParam() == Backend::sqlite ? "pwrite64" : "sendto";
  for (int time = 0; time < 6; ++time) {
    // It counts the calls of each thread by itself.
    std::vector<std::string> command{
        "strace",
        "--follow-forks",
        "--quiet=all",
        "--output=/dev/null",
        fmt::format("--trace={}", call),
        fmt::format("--inject={}:signal=KILL:when={}", call, 1 + below(60))};
    std::ranges::copy(publisher({}), std::back_inserter(command));
    ASSERT_NO_FATAL_FAILURE(run_until_it_dies(command));
  }
  drain();
  expect_all_well();
}

}  // namespace
}  // namespace oncebox::effects
