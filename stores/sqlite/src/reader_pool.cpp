#include "reader_pool.hpp"

#include <utility>

#include "oncebox/driver/call_scope.hpp"

namespace oncebox::sqlite {

ReaderPool::ReaderPool(ConnectionOptions options, std::size_t readers, ReaderPages pages)
    : options_(std::move(options)), pages_(pages), not_open_(readers) {
  free_.reserve(readers);
}

ReaderPool::Snapshot::~Snapshot() {
  try {
    connection_.execute("ROLLBACK");
  } catch (const std::exception&) {
    // Nothing was written; SQLite ends the transaction by itself when an error ended it.
  }
}

std::unique_ptr<Connection> ReaderPool::take() {
  const CallOptions& limits = CallScope::current();
  const detail::NotifyOnStop wake(limits.stop, mutex_, freed_);
  detail::Lock lock(mutex_);
  while (free_.empty() && not_open_ == 0) {
    limits.throw_if_over();
    freed_.wait_until(mutex_, limits.deadline_or(SteadyTime::max()));
  }
  if (!free_.empty()) {
    std::unique_ptr<Connection> connection = std::move(free_.back());
    free_.pop_back();
    return connection;
  }
  --not_open_;
  lock.unlock();
  try {
    return std::make_unique<Connection>(options_);
  } catch (...) {
    lock.lock();
    ++not_open_;
    freed_.notify_one();
    throw;
  }
}

void ReaderPool::give_back(std::unique_ptr<Connection> connection) noexcept {
  if (pages_ == ReaderPages::released) connection->release_memory();
  {
    const detail::Lock lock(mutex_);
    free_.push_back(std::move(connection));  // has room: it came from here
  }
  freed_.notify_one();
}

}  // namespace oncebox::sqlite
