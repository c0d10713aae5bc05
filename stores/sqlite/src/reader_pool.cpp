#include "reader_pool.hpp"

#include <utility>

namespace oncebox::sqlite {

ReaderPool::ReaderPool(const ConnectionOptions& options, std::size_t readers) {
  free_.reserve(readers);
  for (std::size_t i = 0; i < readers; ++i) free_.push_back(std::make_unique<Connection>(options));
}

ReaderPool::Snapshot::~Snapshot() {
  try {
    connection_.execute("ROLLBACK");
  } catch (const std::exception&) {
    // Nothing was written; SQLite ends the transaction by itself when an error ended it.
  }
}

std::unique_ptr<Connection> ReaderPool::take() {
  std::unique_lock lock(mutex_);
  freed_.wait(lock, [this] { return !free_.empty(); });
  std::unique_ptr<Connection> connection = std::move(free_.back());
  free_.pop_back();
  return connection;
}

void ReaderPool::give_back(std::unique_ptr<Connection> connection) noexcept {
  {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(connection));  // has room: it came from here
  }
  freed_.notify_one();
}

}  // namespace oncebox::sqlite
