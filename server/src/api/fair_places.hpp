#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "http/http_message.hpp"
#include "oncebox/detail/mutex.hpp"

namespace oncebox::server {

/// A number of places that callers share. A caller gets a place while it holds fewer than are free.
/// So one caller alone gets half of the places, the next caller half of the rest, and a caller that
/// holds few places finds one. A caller is the name of a token, or the address (of IPv6, a network
/// of 64 bits) where there is no token. Safe from any thread.
class FairPlaces {
  using Callers = std::map<std::string, std::size_t, std::less<>>;

 public:
  /// A place that was taken, or none. The destructor gives the place back, so it must run before
  /// that of the `FairPlaces`.
  class Place {
   public:
    Place() noexcept = default;
    ~Place() { leave(); }
    Place(Place&& other) noexcept
        : places_(std::exchange(other.places_, nullptr)), caller_(other.caller_) {}
    Place& operator=(Place&& other) noexcept {
      std::swap(places_, other.places_);
      std::swap(caller_, other.caller_);
      return *this;
    }

    [[nodiscard]] bool is_taken() const noexcept { return places_ != nullptr; }
    void leave() noexcept;

   private:
    friend class FairPlaces;
    Place(FairPlaces& places, Callers::iterator caller) noexcept
        : places_(&places), caller_(caller) {}

    FairPlaces* places_ = nullptr;
    Callers::iterator caller_ = {};
  };

  explicit FairPlaces(std::size_t places) noexcept : places_(places) {}
  FairPlaces(const FairPlaces&) = delete;
  FairPlaces& operator=(const FairPlaces&) = delete;
  ~FairPlaces() = default;

  /// Takes a place for the caller of this request; none when the caller has its share. The `kept`
  /// places do not count as free.
  [[nodiscard]] Place take(const Request& request, std::size_t kept = 0);

 private:
  void give_back(Callers::iterator caller) noexcept;

  const std::size_t places_;
  detail::Mutex mutex_;
  std::size_t taken_ ONCEBOX_GUARDED_BY(mutex_) = 0;
  /// How many places each caller holds. A caller that holds none stays for a while, because most
  /// callers come again.
  Callers callers_ ONCEBOX_GUARDED_BY(mutex_);
};

}  // namespace oncebox::server
