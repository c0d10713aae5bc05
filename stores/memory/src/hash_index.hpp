#pragma once

#include <boost/intrusive/unordered_set.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace oncebox::memory {

/// The link by which an element stands in a `HashIndex`; it remembers the hash of the element's
/// key.
using HashHook = boost::intrusive::unordered_set_member_hook<boost::intrusive::store_hash<true>>;

/// Owns elements and finds them by their member `key`. The links are part of the element: a lookup
/// touches the bucket and the element, nothing between.
template <class Element, HashHook Element::* Hook>
class HashIndex {
  using Key = std::remove_cvref_t<decltype(std::declval<Element>().key)>;

  struct Hash {
    std::size_t operator()(const Key& key) const noexcept { return std::hash<Key>{}(key); }
    std::size_t operator()(const Element& element) const noexcept { return (*this)(element.key); }
  };
  struct Equal {
    bool operator()(const Element& a, const Element& b) const noexcept { return a.key == b.key; }
    bool operator()(const Key& a, const Element& b) const noexcept { return a == b.key; }
  };
  using Set = boost::intrusive::unordered_set<
      Element, boost::intrusive::member_hook<Element, HashHook, Hook>, boost::intrusive::hash<Hash>,
      boost::intrusive::equal<Equal>, boost::intrusive::power_2_buckets<true>,
      boost::intrusive::constant_time_size<true>>;
  using Buckets = std::vector<typename Set::bucket_type>;

 public:
  HashIndex() = default;
  ~HashIndex() { set_.clear_and_dispose(std::default_delete<Element>()); }
  HashIndex(const HashIndex&) = delete;
  HashIndex& operator=(const HashIndex&) = delete;

  [[nodiscard]] std::size_t size() const noexcept { return set_.size(); }

  [[nodiscard]] Element* find(const Key& key) noexcept {
    const auto found = set_.find(key, Hash{}, Equal{});
    return found == set_.end() ? nullptr : &*found;
  }

  /// The same by the text of a key that is a `Name`, without making one.
  [[nodiscard]] Element* find_text(std::string_view text) noexcept {
    const auto hash = [](std::string_view key) { return std::hash<std::string_view>{}(key); };
    const auto equal = [](std::string_view a, const Element& b) { return a == b.key.str(); };
    const auto found = set_.find(text, hash, equal);
    return found == set_.end() ? nullptr : &*found;
  }

  /// The key must be new. Throws only `std::bad_alloc`, and then nothing has changed.
  Element& insert(std::unique_ptr<Element> element) {
    if (set_.size() >= buckets_.size()) grow();
    set_.insert(*element);
    return *element.release();
  }

  void erase(Element& element) noexcept {
    set_.erase_and_dispose(set_.iterator_to(element), std::default_delete<Element>());
  }

 private:
  static constexpr std::size_t kInitialBuckets = 64;

  void grow() {
    Buckets larger(2 * buckets_.size());
    set_.rehash({larger.data(), larger.size()});
    buckets_.swap(larger);
  }

  Buckets buckets_ = Buckets(kInitialBuckets);
  Set set_{{buckets_.data(), buckets_.size()}};
};

}  // namespace oncebox::memory
