#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace oncebox {

/// A store that may have something to claim.
struct StoreCandidate {
  std::string_view name;
  std::size_t in_flight = 0;  ///< messages of it that wait, run, or are not settled yet
  /// Whether it can be chosen now. Not while a claim of it is under way, nor by a connection to
  /// another database server: all that are free are on the server that has a connection to spare.
  bool is_free = true;
  std::string_view server = {};  ///< the database server that it lives on
};

/// Decides which of many stores a `SetDispatcher` claims from next, and in which order their
/// messages wait. Called by one thread at a time; calls must return at once. Should one throw, that
/// is logged, once, and the stores take turns meanwhile. What calls are given is valid only during
/// them. Each database server asks for itself, so a strategy that remembers where it was does so by
/// server.
class StoreSelection {
 public:
  virtual ~StoreSelection() = default;

  /// The place of the one to claim a batch from. Candidates come in the order of their names, and
  /// at least one of them is free. Nothing: none of them now; asked again when a claim has ended.
  virtual std::optional<std::size_t> choose(std::span<const StoreCandidate> candidates) = 0;

  /// How many messages of one store may wait for a worker, when `max_buffered` of all may and so
  /// many stores have something to claim.
  [[nodiscard]] virtual std::size_t share(std::size_t max_buffered, std::size_t /*stores*/) const {
    return max_buffered;
  }

  /// Where one more claimed message of this store stands among those that wait for a worker: lower
  /// goes first, equal in the order of arrival. `served` is the place of the one that was taken
  /// last.
  virtual double place(std::string_view /*store*/, double /*served*/) { return 0; }
};

/// On each database server a batch of each store in turn, by name (IBX-087). What was claimed first
/// is handled first.
[[nodiscard]] std::unique_ptr<StoreSelection> round_robin();

/// On each database server batches of one store until it has no more, then of the next by name
/// (IBX-088). A store that never runs empty keeps the others of its server waiting.
[[nodiscard]] std::unique_ptr<StoreSelection> drain_first();

/// The weight of a store by its name, above 0; 2 means twice as much as 1.
using StoreWeight = std::function<double(std::string_view store)>;

/// Shares the workers among the stores that have work, by weight (start-time fair queueing): what a
/// store did not use is not saved up, and one with little to do is served at once, however much
/// there is to do for others. Without `weight` all weigh the same. A weight that makes no sense
/// counts as 1.
[[nodiscard]] std::unique_ptr<StoreSelection> weighted_fair(StoreWeight weight = {});

}  // namespace oncebox
