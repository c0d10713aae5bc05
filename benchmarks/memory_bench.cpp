// What the memory store does in a second: enqueue, claim + settle, and recognising duplicates, with
// one and with four threads, among ten thousand and among a million finished messages.
//
// Conditions: payloads of 200 bytes; batches of 50 unless a name says "single"; 20 topics. The
// measured work is the same beside each backlog; the figures are medians of rounds that alternate
// between the two.

#include <fmt/format.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "figure.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/testing/fake_clock.hpp"

namespace oncebox::bench {
namespace {

constexpr std::size_t kSmall = 10'000;
constexpr std::size_t kLarge = 1'000'000;
constexpr std::size_t kBatch = 50;
constexpr std::size_t kMessagesPerRound = 40'000;
constexpr int kRounds = 5;
constexpr int kTopics = 20;

Message make_message(const std::string& id) {
  return {.key = {"bench", id},
          .topic = fmt::format("topic.{}", std::hash<std::string>{}(id) % kTopics),
          .payload = std::string(200, 'x')};
}

std::vector<Message> make_batch(std::string_view prefix, std::size_t first, std::size_t count) {
  std::vector<Message> messages;
  messages.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    messages.push_back(make_message(fmt::format("{}-{}", prefix, first + i)));
  }
  return messages;
}

std::vector<std::vector<Message>> make_batches(std::string_view prefix, std::size_t messages) {
  std::vector<std::vector<Message>> batches;
  for (std::size_t first = 0; first < messages; first += kBatch) {
    batches.push_back(make_batch(prefix, first, kBatch));
  }
  return batches;
}

std::size_t claim_batch(QueueStore& queue, const OwnerToken& owner,
                        const TopicSelection& topics = {}) {
  const std::vector<ClaimedMessage> claimed =
      queue.claim({.owner = owner, .limit = kBatch, .topics = topics});
  std::vector<Settlement> settlements;
  settlements.reserve(claimed.size());
  for (const ClaimedMessage& message : claimed) {
    settlements.push_back({.delivery = delivery_of(message), .verdict = Ack{}});
  }
  queue.settle(settlements);
  return claimed.size();
}

std::size_t drain(QueueStore& queue, const OwnerToken& owner) {
  std::size_t handled = 0;
  while (const std::size_t count = claim_batch(queue, owner)) handled += count;
  return handled;
}

// Runs `work(thread number)` on several threads at once and adds up what it answers.
template <class Work>
std::size_t on_threads(int threads, Work work) {
  std::atomic<std::size_t> total = 0;
  {
    std::vector<std::jthread> pool;
    pool.reserve(static_cast<std::size_t>(threads));
    for (int thread = 0; thread < threads; ++thread) {
      pool.emplace_back([&, thread] { total += work(thread); });
    }
  }
  return total;
}

// A store that holds a number of finished messages, and what is done to it. The backlog is finished
// "later" than what the rounds add, so that a clean-up can remove the rounds and leave the backlog.
class Bench {
 public:
  enum class Backlog { done, ready };

  Bench(std::size_t backlog, Backlog kind) : backlog_(backlog) {
    clock_.set(kBacklogTime);
    for (std::size_t first = 0; first < backlog; first += kBatch) {
      queue().enqueue(make_batch("old", first, kBatch));
      if (kind == Backlog::done) drain(queue(), owner_);
    }
    if (kind == Backlog::done) clock_.set(kRoundTime);
  }

  double enqueue(int threads) {
    const std::size_t share = kMessagesPerRound / static_cast<std::size_t>(threads);
    std::vector<std::vector<std::vector<Message>>> work;
    work.reserve(static_cast<std::size_t>(threads));
    for (int thread = 0; thread < threads; ++thread) {
      work.push_back(make_batches(fmt::format("r{}-t{}", round_, thread), share));
    }
    ++round_;
    return measure([&] {
      return on_threads(threads, [&](int thread) {
        for (const auto& batch : work[static_cast<std::size_t>(thread)]) queue().enqueue(batch);
        return share;
      });
    });
  }

  /// Drains what `enqueue` left.
  double claim_and_settle(int threads) {
    return measure(
        [&] { return on_threads(threads, [&](int) { return drain(queue(), owner_); }); });
  }

  double duplicates_single(int threads) {
    const std::vector<Message> known = sample();
    const std::size_t share = kMessagesPerRound / static_cast<std::size_t>(threads);
    return measure([&] {
      return on_threads(threads, [&](int) {
        for (std::size_t i = 0; i < share; ++i) queue().enqueue(known[i % known.size()]);
        return share;
      });
    });
  }

  /// The rate of claiming and settling when this many messages stay ready beside those measured.
  double claim_among_ready(const TopicSelection& topics) {
    std::size_t handled = 0;
    return measure([&] {
      while (handled < kMessagesPerRound / 4) handled += claim_batch(queue(), owner_, topics);
      return handled;
    });
  }

  /// Removes what a round added, so that every round meets the same backlog.
  void forget_round() {
    while (store_.inbox_operator().cleanup({.done_retention = Duration{0}}).done_removed > 0) {
    }
  }

 private:
  static constexpr TimePoint kRoundTime = testing::FakeClock::kDefaultStart;
  static constexpr TimePoint kBacklogTime = kRoundTime + std::chrono::hours{1};

  QueueStore& queue() { return store_.inbox(); }

  // Ten thousand keys from all over the backlog.
  [[nodiscard]] std::vector<Message> sample() const {
    constexpr std::size_t kSample = 10'000;
    std::vector<Message> messages;
    messages.reserve(kSample);
    for (std::size_t i = 0; i < kSample; ++i) {
      messages.push_back(make_message(fmt::format("old-{}", i * (backlog_ / kSample))));
    }
    return messages;
  }

  testing::FakeClock clock_;
  memory::MemoryStore store_{clock_};
  OwnerToken owner_ = OwnerToken::generate();
  std::size_t backlog_;
  int round_ = 0;
};

struct Rates {
  std::vector<double> enqueue;
  std::vector<double> claim;
  std::vector<double> duplicates;
};

void run(Report& report) {
  Bench small(kSmall, Bench::Backlog::done);
  Bench large(kLarge, Bench::Backlog::done);
  for (const int threads : {1, 4}) {
    Rates with_small;
    Rates with_large;
    for (int round = 0; round < kRounds; ++round) {
      for (auto [bench, rates] : {std::pair{&small, &with_small}, std::pair{&large, &with_large}}) {
        rates->enqueue.push_back(bench->enqueue(threads));
        rates->claim.push_back(bench->claim_and_settle(threads));
        rates->duplicates.push_back(bench->duplicates_single(threads));
        bench->forget_round();
      }
    }
    const auto compare = [&](std::string_view what, const std::vector<double>& a,
                             const std::vector<double>& b) {
      const std::string base = fmt::format("memory/{}/threads={}/done=10k", what, threads);
      report.add(base, median(a));
      report.add(fmt::format("memory/{}/threads={}/done=1M", what, threads), median(b), base);
    };
    compare("enqueue", with_small.enqueue, with_large.enqueue);
    compare("claim+settle", with_small.claim, with_large.claim);
    compare("duplicate-single", with_small.duplicates, with_large.duplicates);
  }
}

// Claims must cost O(log n): the same number of messages, out of few and out of a million ready
// ones.
void run_among_ready(Report& report) {
  const TopicSelection one_topic{.only = {"topic.7"}};
  Bench small(3 * kMessagesPerRound, Bench::Backlog::ready);
  Bench large(kLarge, Bench::Backlog::ready);
  const std::string name = "memory/claim+settle/threads=1/ready";
  const std::string base = name + "=120k";
  report.add(base, small.claim_among_ready({}));
  report.add(name + "=1M", large.claim_among_ready({}), base);
  report.add(name + "=1M/one-topic-of-20", large.claim_among_ready(one_topic), base);
}

}  // namespace
}  // namespace oncebox::bench

int main() {
  oncebox::bench::Report report;
  oncebox::bench::run(report);
  oncebox::bench::run_among_ready(report);
  report.print_json();
}
