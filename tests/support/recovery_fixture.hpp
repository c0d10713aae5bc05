#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "oncebox/memory/memory_store.hpp"
#include "oncebox/store.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "oncebox/testing/temporary_folder.hpp"
#include "oncebox/transaction.hpp"
#include "watched.hpp"

namespace oncebox {

enum class Backend { memory, sqlite, postgresql, http };

[[nodiscard]] inline std::string backend_name(Backend backend) {
  constexpr std::array kNames{"memory", "sqlite", "postgresql", "http"};
  return kNames.at(static_cast<std::size_t>(backend));
}

// A program links `oncebox::local_stores` or `oncebox::remote_stores`, which have what follows: so
// the same tests run on stores of their process, and on those of a server.

[[nodiscard]] std::vector<Backend> backends_under_test();
/// A store with nothing in it. The clock is borrowed; `path` is for a file that it may need.
[[nodiscard]] std::unique_ptr<Store> make_backend(Backend backend, const Clock& clock,
                                                  const std::string& path);

/// The one of these backends that is a database.
[[nodiscard]] Backend database_under_test();

/// A table of the test's own in that database, for handlers that write in a transaction.
class OwnTable {
 public:
  OwnTable() = default;
  virtual ~OwnTable() = default;
  OwnTable(const OwnTable&) = delete;
  OwnTable& operator=(const OwnTable&) = delete;

  /// False when the row cannot be written, for example because it is there. Then the handler has to
  /// fail.
  [[nodiscard]] virtual bool insert(Transaction& transaction, const std::string& id) = 0;
};

/// A table with nothing in it, for one store.
[[nodiscard]] std::unique_ptr<OwnTable> make_own_table();

/// On each kind of store of this program, with a clock that stands still.
class OnEachStore : public ::testing::TestWithParam<Backend> {
 protected:
  [[nodiscard]] std::unique_ptr<Store> make_store() {
    return make_backend(GetParam(), clock_,
                        folder_.file("store-" + std::to_string(++files_) + ".db"));
  }

  testing::FakeClock clock_;

 private:
  testing::TemporaryFolder folder_;
  int files_ = 0;
};

// NOLINTNEXTLINE(cppcoreguidelines-macro-usage): a suite's name cannot be a value
#define ONCEBOX_ON_EACH_STORE(suite)                                                  \
  INSTANTIATE_TEST_SUITE_P(Stores, suite, ::testing::ValuesIn(backends_under_test()), \
                           [](const auto& backend) { return backend_name(backend.param); })

inline Message message_of(const std::string& id, const std::string& topic = "t") {
  return {.key = {"shop", id}, .topic = Topic(topic), .payload = Payload("{}")};
}

/// Enqueues the message and buries it with this error.
inline void bury(QueueStore& queue, const Message& message, const std::string& error) {
  queue.enqueue(message);
  queue.mark(Mark{.key = message.key, .as = MarkAs::dead, .error = error});
}

}  // namespace oncebox
