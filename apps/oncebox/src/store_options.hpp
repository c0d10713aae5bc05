#pragma once

#include <memory>
#include <string>
#include <vector>

#include "command.hpp"
#include "oncebox/store.hpp"

/// The options that commands about a store have in common.
namespace oncebox::app {

enum class QueueChoice { inbox, outbox };

struct StoreOptions {
  std::string url = "http://127.0.0.1:8080";
  std::string token_file = {};
  QueueChoice queue = QueueChoice::inbox;
  bool json = false;
};

/// --url, --token-file and --json.
[[nodiscard]] std::vector<Option> store_options(StoreOptions& options);
/// The same and --queue.
[[nodiscard]] std::vector<Option> queue_options(StoreOptions& options);

/// A store and the part of it that the options choose.
class OpenStore {
 public:
  /// Throws as `open_store` does, and a `Failure` when the token cannot be read.
  explicit OpenStore(const StoreOptions& options);

  [[nodiscard]] Store& store() const noexcept { return *store_; }
  [[nodiscard]] QueueStore& queue() const;
  [[nodiscard]] QueueOperator& queue_operator() const;

 private:
  std::unique_ptr<Store> store_;
  QueueChoice queue_;
};

}  // namespace oncebox::app
