#include "oncebox/dispatch/store_selection.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace oncebox {

namespace {

/// The first of this server by name behind `last` that can be chosen, or the first of all of it.
std::optional<std::size_t> next_behind(std::string_view last, std::string_view server,
                                       std::span<const StoreCandidate> candidates) {
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!candidates[i].is_free || candidates[i].server != server) continue;
    if (candidates[i].name > last) return i;
    if (!first) first = i;
  }
  return first;
}

/// The server whose turn it is to claim.
std::optional<std::string_view> asking_server(std::span<const StoreCandidate> candidates) {
  const auto free = std::ranges::find_if(candidates, &StoreCandidate::is_free);
  if (free == candidates.end()) return std::nullopt;
  return free->server;
}

/// The store that was chosen last on each server. One for all would begin anew on every server
/// whenever another one has had its turn.
class LastChosen {
 public:
  [[nodiscard]] std::string& on(std::string_view server,
                                std::span<const StoreCandidate> candidates) {
    const auto known = stores_.find(server);
    if (known != stores_.end()) return known->second;
    if (stores_.size() >= kForgetAt) forget_idle(candidates);
    return stores_[std::string(server)];
  }

 private:
  /// So many servers are remembered before those are forgotten that have nothing to do.
  static constexpr std::size_t kForgetAt = 1'000;

  void forget_idle(std::span<const StoreCandidate> candidates) {
    std::set<std::string_view> busy;
    for (const StoreCandidate& candidate : candidates) busy.insert(candidate.server);
    std::erase_if(stores_, [&](const auto& known) { return !busy.contains(known.first); });
  }

  std::map<std::string, std::string, std::less<>> stores_;
};

class RoundRobin final : public StoreSelection {
 public:
  std::optional<std::size_t> choose(std::span<const StoreCandidate> candidates) override {
    const auto server = asking_server(candidates);
    if (!server) return std::nullopt;
    std::string& last = last_.on(*server, candidates);
    const auto next = next_behind(last, *server, candidates);
    if (next) last = candidates[*next].name;
    return next;
  }

 private:
  LastChosen last_;
};

class DrainFirst final : public StoreSelection {
 public:
  std::optional<std::size_t> choose(std::span<const StoreCandidate> candidates) override {
    const auto server = asking_server(candidates);
    if (!server) return std::nullopt;
    std::string& current = current_.on(*server, candidates);
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (candidates[i].name != current || candidates[i].server != *server) continue;
      if (!candidates[i].is_free) return std::nullopt;
      return i;
    }
    const auto next = next_behind(current, *server, candidates);
    if (next) current = candidates[*next].name;
    return next;
  }

 private:
  LastChosen current_;
};

class WeightedFair final : public StoreSelection {
 public:
  explicit WeightedFair(StoreWeight weight) : weight_(std::move(weight)) {}

  /// The store that holds least for its weight; of several, the one chosen longest ago.
  std::optional<std::size_t> choose(std::span<const StoreCandidate> candidates) override {
    std::optional<std::size_t> best;
    std::pair<double, std::uint64_t> best_rank;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (!candidates[i].is_free) continue;
      const auto known = stores_.find(candidates[i].name);
      const std::uint64_t turn = known == stores_.end() ? 0 : known->second.turn;
      const std::pair rank{
          static_cast<double>(candidates[i].in_flight) / weight_of(candidates[i].name), turn};
      if (best && rank >= best_rank) continue;
      best = i;
      best_rank = rank;
    }
    if (best) entry(candidates[*best].name).turn = ++turns_;
    return best;
  }

  /// There is always as much left as one more store may have.
  [[nodiscard]] std::size_t share(std::size_t max_buffered, std::size_t stores) const override {
    return std::max<std::size_t>(max_buffered / (stores + 1), 1);
  }

  double place(std::string_view store, double served) override {
    if (stores_.size() > kForgetAt) forget_idle(served);
    Entry& known = entry(store);
    const double start = std::max(served, known.finish);
    known.finish = start + 1 / weight_of(store);
    return start;
  }

 private:
  /// So many stores are remembered before those are forgotten that make no difference.
  static constexpr std::size_t kForgetAt = 10'000;

  struct Entry {
    double finish = 0;  ///< the place behind its last message
    std::uint64_t turn = 0;
  };

  Entry& entry(std::string_view store) {
    const auto known = stores_.find(store);
    return known != stores_.end() ? known->second : stores_[std::string(store)];
  }

  [[nodiscard]] double weight_of(std::string_view store) const {
    const double weight = weight_ ? weight_(store) : 1;
    return std::isfinite(weight) && weight > 0 ? weight : 1;
  }

  void forget_idle(double served) {
    std::erase_if(stores_, [&](const auto& store) { return store.second.finish <= served; });
  }

  const StoreWeight weight_;
  std::map<std::string, Entry, std::less<>> stores_;
  std::uint64_t turns_ = 0;
};

}  // namespace

std::unique_ptr<StoreSelection> round_robin() { return std::make_unique<RoundRobin>(); }

std::unique_ptr<StoreSelection> drain_first() { return std::make_unique<DrainFirst>(); }

std::unique_ptr<StoreSelection> weighted_fair(StoreWeight weight) {
  return std::make_unique<WeightedFair>(std::move(weight));
}

}  // namespace oncebox
