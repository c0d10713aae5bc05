#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "oncebox/message.hpp"
#include "oncebox/queue_types.hpp"
#include "world.hpp"

namespace oncebox::simulation {

/// What was enqueued, who holds it, and who handles it: written down beside the stores, as their
/// calls take effect. Says so when two hold the same message.
class Ledger {
 public:
  explicit Ledger(World& world) : world_(world) {}

  void on_enqueued(const std::string& store, const MessageKey& key);

  // As the store below has answered, whether or not the answer arrives.
  void on_claimed(const std::string& store, std::span<const ClaimedMessage> claimed);
  void on_settled(const std::string& store, std::span<const Settlement> settlements,
                  std::span<const SettleOutcome> outcomes);
  void on_extended(const std::string& store, std::span<const LeaseExtension> extensions,
                   std::span<const ExtendOutcome> outcomes);

  enum class Handled { well, failed, interrupted };
  void on_handler_began(const std::string& store, const ClaimedMessage& claimed);
  void on_handler_ended(const std::string& store, const ClaimedMessage& claimed, Handled how);

  /// What one dispatcher runs of a topic that is limited.
  [[nodiscard]] std::size_t running(const OwnerToken& owner, const Topic& topic) const;
  [[nodiscard]] std::size_t running(const OwnerToken& owner) const;
  /// Whether one dispatcher holds or handles something of the store.
  [[nodiscard]] bool has_any(const std::string& store, const OwnerToken& owner) const;

  /// The keys of a store that were not done or dead when they were last looked at.
  [[nodiscard]] std::vector<MessageKey> open_keys(const std::string& store) const;
  void close(const std::string& store, const MessageKey& key);
  [[nodiscard]] std::size_t enqueued() const noexcept { return entries_.size(); }
  [[nodiscard]] bool was_handled_well(const std::string& store, const MessageKey& key) const;
  /// Deliveries that this owner's handlers have ended with and whose lease has not ended.
  [[nodiscard]] std::vector<MessageKey> unsettled(const std::string& store,
                                                  const OwnerToken& owner) const;
  /// What it has not settled until now it may have given up.
  void forget_unsettled(const std::string& store, const OwnerToken& owner);

 private:
  struct Holder {
    OwnerToken owner;
    DeliveryNumber number{};
    TimePoint until{};
    bool is_handled = false;  ///< its handler has ended
  };
  struct Entry {
    std::optional<Holder> holder;
    std::set<OwnerToken> handlers;  ///< the dispatchers that run its handler
    bool was_handled_well = false;
    bool is_open = true;
  };
  using Place = std::pair<std::string, MessageKey>;

  Entry* find(const std::string& store, const MessageKey& key);

  World& world_;
  std::map<Place, Entry> entries_;
  std::map<OwnerToken, std::map<std::string, std::size_t>> running_;  ///< by topic
};

}  // namespace oncebox::simulation
