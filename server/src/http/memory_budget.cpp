#include "http/memory_budget.hpp"

#include <algorithm>
#include <limits>

namespace oncebox::server {

namespace {

constexpr std::size_t kConnectionsDivisor = 2;
constexpr std::size_t kStrangersDivisor = 4;
/// What an account may have of a part of which half is taken. A token needs room for a large body.
constexpr std::size_t kStrangerDivisor = 8;
constexpr std::size_t kCallerDivisor = 3;
/// What it may have of a part when only the reserve is left.
constexpr std::size_t kLittleDivisor = 8;
/// Of the budget, for callers.
constexpr std::size_t kReserveDivisor = 8;

/// What is kept for connections, whatever requests hold.
std::size_t quarter_of(std::size_t limit) { return limit / 4; }

/// What strangers and callers have together, and what is plenty of any part.
std::size_t most_of(std::size_t limit) { return limit - quarter_of(limit); }

std::size_t beyond(std::size_t limit, std::size_t bytes) {
  return bytes > limit ? bytes - limit : 0;
}

}  // namespace

std::string_view to_string(MemoryPart part) noexcept {
  switch (part) {
    case MemoryPart::connections:
      return "connections";
    case MemoryPart::strangers:
      return "strangers";
    case MemoryPart::callers:
      break;
  }
  return "callers";
}

MemoryBudget::MemoryBudget(std::size_t bytes) noexcept : limit_(bytes) {}

std::size_t MemoryBudget::limit(MemoryPart part) const noexcept {
  switch (part) {
    case MemoryPart::connections:
      return limit_ / kConnectionsDivisor;
    case MemoryPart::strangers:
      return limit_ / kStrangersDivisor;
    case MemoryPart::callers:
      break;
  }
  return most_of(limit_);
}

std::size_t MemoryBudget::requests() const noexcept {
  return counts_[index(MemoryPart::strangers)].held + counts_[index(MemoryPart::callers)].held;
}

std::size_t MemoryBudget::all() const noexcept {
  return requests() + counts_[index(MemoryPart::connections)].held;
}

std::size_t MemoryBudget::held() const noexcept {
  const detail::Lock lock(mutex_);
  return all();
}

std::size_t MemoryBudget::held(MemoryPart part) const noexcept {
  const detail::Lock lock(mutex_);
  return counts_[index(part)].held;
}

std::size_t MemoryBudget::refusals(MemoryPart part) const noexcept {
  const detail::Lock lock(mutex_);
  return counts_[index(part)].refusals;
}

std::size_t MemoryBudget::ceiling(MemoryPart part) const noexcept {
  return part == MemoryPart::callers ? limit_ : limit_ - limit_ / kReserveDivisor;
}

bool MemoryBudget::take(MemoryPart part, std::size_t bytes, MemoryAccount& account) noexcept {
  const detail::Lock lock(mutex_);
  const bool has_room = missing(part, bytes) == 0 && has_share(part, bytes, account);
  if (has_room) {
    add(part, bytes, account);
  } else {
    ++counts_[index(part)].refusals;
  }
  return has_room;
}

/// What has to go before so much more can be had without breaking a limit.
std::size_t MemoryBudget::missing(MemoryPart part, std::size_t bytes) const noexcept {
  const std::size_t held = counts_[index(part)].held + bytes;
  const std::size_t own = beyond(limit(part), held);
  const std::size_t of_all = beyond(ceiling(part), all() + bytes);
  if (part == MemoryPart::connections) {
    return std::max(own, std::min(of_all, beyond(quarter_of(limit_), held)));
  }
  return std::max({own, of_all, beyond(most_of(limit_), requests() + bytes)});
}

bool MemoryBudget::has_share(MemoryPart part, std::size_t bytes,
                             const MemoryAccount& account) const noexcept {
  if (part == MemoryPart::connections) return true;
  const std::size_t whole = limit(part);
  std::size_t share = whole;
  if (counts_[index(part)].held + bytes > whole / 2) {
    share /= part == MemoryPart::strangers ? kStrangerDivisor : kCallerDivisor;
  }
  if (all() + bytes > ceiling(MemoryPart::strangers)) share = whole / kLittleDivisor;
  const std::size_t own = account.held[index(part)].load();
  return own == 0 || own + bytes <= share;
}

void MemoryBudget::add(MemoryPart part, std::size_t bytes, MemoryAccount& account) noexcept {
  counts_[index(part)].held += bytes;
  account.held[index(part)] += bytes;
}

void MemoryBudget::force(MemoryPart part, std::size_t bytes, MemoryAccount& account) noexcept {
  const detail::Lock lock(mutex_);
  add(part, bytes, account);
}

void MemoryBudget::give_back(MemoryPart part, std::size_t bytes, MemoryAccount& account) noexcept {
  const detail::Lock lock(mutex_);
  counts_[index(part)].held -= bytes;
  account.held[index(part)] -= bytes;
}

bool MemoryBudget::is_short(MemoryPart part) const noexcept {
  const detail::Lock lock(mutex_);
  const std::size_t held = counts_[index(part)].held;
  return all() > most_of(limit_) || held > most_of(limit(part)) ||
         (part != MemoryPart::connections && requests() > most_of(limit(MemoryPart::callers)));
}

std::size_t MemoryBudget::shortage(MemoryPart part, std::size_t bytes) const noexcept {
  const detail::Lock lock(mutex_);
  return missing(part, bytes);
}

std::size_t MemoryBudget::room(MemoryPart part) const noexcept {
  const detail::Lock lock(mutex_);
  const auto left = [](std::size_t limit, std::size_t held) { return beyond(held, limit); };
  const std::size_t held = counts_[index(part)].held;
  const std::size_t own = left(limit(part), held);
  const std::size_t of_all = left(ceiling(part), all());
  if (part == MemoryPart::connections) {
    return std::min(own, std::max(of_all, left(quarter_of(limit_), held)));
  }
  return std::min({own, of_all, left(most_of(limit_), requests())});
}

MemoryHold& MemoryHold::operator=(MemoryHold&& other) noexcept {
  if (this == &other) return *this;
  release();
  account_ = std::move(other.account_);
  part_ = other.part_;
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

bool MemoryHold::resize(std::size_t bytes) noexcept {
  if (bytes > bytes_ && account_ && !account_->memory->take(part_, bytes - bytes_, *account_)) {
    return false;
  }
  if (bytes > bytes_) {
    bytes_ = bytes;
  } else {
    force(bytes);
  }
  return true;
}

std::size_t MemoryHold::room() const noexcept {
  return account_ ? account_->memory->room(part_) : std::numeric_limits<std::size_t>::max();
}

void MemoryHold::force(std::size_t bytes) noexcept {
  if (account_ && bytes > bytes_) account_->memory->force(part_, bytes - bytes_, *account_);
  if (account_ && bytes < bytes_) account_->memory->give_back(part_, bytes_ - bytes, *account_);
  bytes_ = bytes;
}

}  // namespace oncebox::server
