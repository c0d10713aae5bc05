#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

#include "oncebox/message.hpp"
#include "oncebox/queue_types.hpp"
#include "oncebox/sql/stored_message.hpp"

namespace oncebox::postgresql {

/// What this process knows of the messages that it was given, so that their settlement need not
/// look for their keys. Forgetting one costs a little time and nothing else. Every call is safe
/// from any thread.
class Handouts {
 public:
  struct Handout {
    std::int64_t id = 0;
    std::optional<std::string> partition = {};
  };

  void remember(std::span<const sql::StoredMessage> claimed);
  /// Nothing unless the delivery has a number and is of the same message.
  [[nodiscard]] std::optional<Handout> find(const Delivery& delivery) const;
  void forget(std::span<const Settlement> settlements);

 private:
  struct Remembered {
    Handout handout;
    std::size_t key_hash = 0;
  };

  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, Remembered> by_delivery_;
};

}  // namespace oncebox::postgresql
