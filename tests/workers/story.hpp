#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "audit.hpp"
#include "ledger.hpp"

/// The ledgers of all processes, sorted by message.
namespace oncebox::workers {

struct Settling {
  std::string verdict;
  /// Nothing: the process did not live to hear it, or was told that it is unknown.
  std::optional<std::string> outcome = {};
};

/// One delivery of a message, as the process that got it knows it.
struct HeldDelivery {
  std::uint64_t number = 0;
  std::size_t run = 0;
  int claims = 0;            ///< how often this number was given
  Duration lease{};          ///< that was asked for
  TimePoint locked_first{};  ///< by the claim
  TimePoint locked_until{};  ///< by the last extension
  int deliveries = 0;
  int attempt = 0;
  std::vector<Settling> settlings = {};

  [[nodiscard]] bool settled_as(std::string_view verdict) const;
  [[nodiscard]] bool perhaps_settled_as(std::string_view verdict) const;
  [[nodiscard]] bool superseded() const;
  /// By the store's clock: a lease is counted from the moment of the claim.
  [[nodiscard]] TimePoint claimed_at() const;
};

/// The run of a handler, for as long as the process is known to have been alive.
struct Handling {
  std::size_t run = 0;
  std::uint64_t delivery = 0;
  Instant begun = 0;
  Instant until = 0;
};

struct Tally {
  int certain = 0;
  int possible = 0;  ///< on top: asked for, but never answered
};

struct Story {
  std::string id;
  int answered = 0;
  int accepted = 0;
  int in_doubt = 0;  ///< offers of which nobody knows whether they were taken in
  std::map<std::uint64_t, HeldDelivery> deliveries = {};  ///< by their numbers
  std::vector<Handling> handlings = {};
  bool was_handled = false;

  /// How many deliveries were settled by this verdict.
  [[nodiscard]] Tally tally(std::string_view verdict) const;
};

using Stories = std::map<std::string, Story>;  ///< by the ids of the messages

[[nodiscard]] Stories tell_stories(const std::vector<WorkerRun>& runs);

}  // namespace oncebox::workers
