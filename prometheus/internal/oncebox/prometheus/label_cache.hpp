#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "oncebox/internal/shared_mutex.hpp"

namespace oncebox::metrics {

/// How many entries several caches may make together. Safe from any thread.
class LabelBudget {
 public:
  explicit LabelBudget(std::size_t entries) : left_(static_cast<std::ptrdiff_t>(entries)) {}

  [[nodiscard]] bool take() noexcept {
    if (left_.fetch_sub(1) > 0) return true;
    ++left_;
    return false;
  }
  void give_back(std::size_t entries) noexcept { left_ += static_cast<std::ptrdiff_t>(entries); }

 private:
  std::atomic<std::ptrdiff_t> left_;
};

/// Remembers what was made for each combination of `LabelCount` label values: looking a family's
/// member up in the metrics library costs more than counting. At most `max_entries` are made, so
/// that nobody can make a server remember without end; the rest shares one made for "other".
/// Entries stay where they are. Safe from any thread.
template <class Entry, std::size_t LabelCount>
class LabelCache {
 public:
  using Values = std::array<std::string_view, LabelCount>;
  using Make = std::function<std::unique_ptr<Entry>(const Values& values)>;

  /// The budget, if there is one, is borrowed; it is another limit.
  LabelCache(std::size_t max_entries, Make make, LabelBudget* budget = nullptr)
      : max_entries_(max_entries), make_(std::move(make)), budget_(budget) {}
  ~LabelCache() {
    if (budget_ != nullptr) budget_->give_back(entries_.size());
  }
  LabelCache(const LabelCache&) = delete;
  LabelCache& operator=(const LabelCache&) = delete;

  [[nodiscard]] Entry& get(const Values& values) {
    {
      const detail::ReadLock lock(mutex_);
      if (const auto found = entries_.find(values); found != entries_.end()) return *found->second;
      if (other_) return *other_;
    }
    const detail::WriteLock lock(mutex_);
    if (const auto found = entries_.find(values); found != entries_.end()) return *found->second;
    const bool has_room = entries_.size() < max_entries_ && (budget_ == nullptr || budget_->take());
    return has_room ? add(values) : other();
  }

 private:
  using Key = std::array<std::string, LabelCount>;

  struct Hash {
    using is_transparent = void;
    template <class Texts>
    std::size_t operator()(const Texts& texts) const noexcept {
      std::size_t hash = 0;
      for (const std::string_view text : texts) {
        hash = hash * 0x9e3779b97f4a7c15 + std::hash<std::string_view>{}(text);
      }
      return hash;
    }
  };
  struct Equal {
    using is_transparent = void;
    template <class Left, class Right>
    bool operator()(const Left& left, const Right& right) const noexcept {
      for (std::size_t i = 0; i < LabelCount; ++i) {
        if (left[i] != right[i]) return false;
      }
      return true;
    }
  };

  Entry& add(const Values& values) ONCEBOX_REQUIRES(mutex_) {
    Key key;
    for (std::size_t i = 0; i < LabelCount; ++i) key[i] = values[i];
    return *entries_.emplace(std::move(key), make_(values)).first->second;
  }

  Entry& other() ONCEBOX_REQUIRES(mutex_) {
    if (!other_) {
      Values others;
      others.fill("other");
      other_ = make_(others);
    }
    return *other_;
  }

  const std::size_t max_entries_;
  const Make make_;
  LabelBudget* const budget_;
  detail::SharedMutex mutex_;
  std::unordered_map<Key, std::unique_ptr<Entry>, Hash, Equal> entries_ ONCEBOX_GUARDED_BY(mutex_);
  std::unique_ptr<Entry> other_ ONCEBOX_GUARDED_BY(mutex_);  // made when the entries are full
};

}  // namespace oncebox::metrics
