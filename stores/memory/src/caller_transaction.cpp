#include "oncebox/memory/transaction.hpp"

#include <utility>

#include "memory_transaction.hpp"
#include "oncebox/error.hpp"

namespace oncebox::memory {

namespace {

// A memory store has no queues of another kind.
MemoryQueue& memory_queue(QueueStore& queue) { return static_cast<MemoryQueue&>(queue); }

}  // namespace

struct CallerTransaction::Impl {
  explicit Impl(MemoryStore& store) : transaction(memory_queue(store.inbox()).queues()) {}

  MemoryTransaction transaction;
};

CallerTransaction::CallerTransaction(MemoryStore& store) : impl_(std::make_unique<Impl>(store)) {}

CallerTransaction::~CallerTransaction() = default;

void CallerTransaction::commit() {
  if (impl_->transaction.commit(std::nullopt)) return;
  throw Error(ErrorCode::conflict,
              "another call has changed a message that this transaction enqueued; run it again");
}

void CallerTransaction::roll_back() noexcept { impl_->transaction.roll_back(); }

std::vector<EnqueueOutcome> CallerTransaction::do_enqueue(QueueKind queue,
                                                          std::span<const Message> messages,
                                                          const EnqueueOptions& options) {
  return impl_->transaction.enqueue(queue, messages, options);
}

void on_commit(Transaction& transaction, std::function<void()> apply) {
  auto* const of_caller = dynamic_cast<CallerTransaction*>(&transaction);
  auto* const own = of_caller != nullptr ? &of_caller->impl_->transaction
                                         : dynamic_cast<MemoryTransaction*>(&transaction);
  if (own == nullptr) {
    throw Error(ErrorCode::unsupported, "this is no transaction of a memory store");
  }
  own->on_commit(std::move(apply));
}

}  // namespace oncebox::memory
