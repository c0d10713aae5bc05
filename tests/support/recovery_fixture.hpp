#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "oncebox/memory/memory_store.hpp"
#include "oncebox/sqlite/sqlite_store.hpp"
#include "oncebox/testing/fake_clock.hpp"
#include "oncebox/testing/temporary_folder.hpp"
#include "watched.hpp"

namespace oncebox {

enum class Backend { memory, sqlite };

/// On each kind of store of this process, with a clock that stands still.
class OnEachStore : public ::testing::TestWithParam<Backend> {
 protected:
  [[nodiscard]] std::unique_ptr<Store> make_store() {
    if (GetParam() == Backend::memory) return std::make_unique<memory::MemoryStore>(clock_);
    const std::string path = folder_.file("store-" + std::to_string(++files_) + ".db");
    return std::make_unique<sqlite::SqliteStore>(sqlite::Options{.path = path}, clock_);
  }

  testing::FakeClock clock_;

 private:
  testing::TemporaryFolder folder_;
  int files_ = 0;
};

// NOLINTNEXTLINE(cppcoreguidelines-macro-usage): a suite's name cannot be a value
#define ONCEBOX_ON_EACH_STORE(suite)                                                \
  INSTANTIATE_TEST_SUITE_P(                                                         \
      Stores, suite, ::testing::Values(Backend::memory, Backend::sqlite),           \
      [](const auto& backend) {                                                     \
        return std::string(backend.param == Backend::memory ? "memory" : "sqlite"); \
      })

inline Message message_of(const std::string& id, const std::string& topic = "t") {
  return {.key = {"shop", id}, .topic = Topic(topic), .payload = Payload("{}")};
}

/// Enqueues the message and buries it with this error.
inline void bury(QueueStore& queue, const Message& message, const std::string& error) {
  queue.enqueue(message);
  queue.mark(Mark{.key = message.key, .as = MarkAs::dead, .error = error});
}

}  // namespace oncebox
