#include "cancellation.hpp"

#include <libpq-fe.h>
#include <sys/eventfd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <thread>

#include "oncebox/detail/condition.hpp"
#include "oncebox/detail/mutex.hpp"

namespace oncebox::postgresql {

namespace {

/// Of this process, on their way at the same time: more means that servers take none.
constexpr int kMaxRequests = 32;

}  // namespace

class Cancellation::Request {
 public:
  explicit Request(PGconn* connection) : cancel_(PQgetCancel(connection), &PQfreeCancel) {}
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  /// False when there is no thread for it.
  static bool send(const std::shared_ptr<Request>& request) {
    if (request->cancel_ == nullptr || under_way.fetch_add(1) >= kMaxRequests) {
      if (request->cancel_ != nullptr) --under_way;
      return false;
    }
    try {
      std::thread([request] {
        request->run();
        --under_way;
      }).detach();
      return true;
    } catch (const std::exception&) {
      --under_way;
      return false;
    }
  }

  [[nodiscard]] bool has_arrived(SteadyTime deadline) {
    const detail::Lock lock(mutex_);
    while (!has_ended_ && changed_.wait_until(mutex_, deadline)) continue;
    return has_arrived_;
  }

 private:
  void run() noexcept {
    std::array<char, 256> why{};
    const bool arrived = PQcancel(cancel_.get(), why.data(), static_cast<int>(why.size())) == 1;
    const detail::Lock lock(mutex_);
    has_ended_ = true;
    has_arrived_ = arrived;
    changed_.notify_all();
  }

  static inline std::atomic<int> under_way = 0;

  const std::unique_ptr<PGcancel, decltype(&PQfreeCancel)> cancel_;
  detail::Mutex mutex_;
  detail::TimedCondition changed_{SystemClock::shared()};
  bool has_ended_ ONCEBOX_GUARDED_BY(mutex_) = false;
  bool has_arrived_ ONCEBOX_GUARDED_BY(mutex_) = false;
};

Cancellation::Cancellation(pg_conn* connection)
    : request_(std::make_shared<Request>(connection)),
      deadline_(SystemClock::shared().steady() + kGrace) {
  if (!Request::send(request_)) request_.reset();
}

// A request that could not be made cannot arrive, either.
bool Cancellation::has_arrived(SteadyTime deadline) const {
  return request_ == nullptr || request_->has_arrived(deadline);
}

StopSignal::StopSignal(const std::stop_token& stop)
    : descriptor_(stop.stop_possible() ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1),
      on_stop_(stop, [this] {
        if (descriptor_.is_open()) eventfd_write(descriptor_.get(), 1);
      }) {}

}  // namespace oncebox::postgresql
