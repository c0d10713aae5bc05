#include "signals.hpp"

#include <pthread.h>

#include <cerrno>
#include <csignal>
#include <ctime>

namespace oncebox::app {

struct Signals::Masks {
  sigset_t waited{};
  sigset_t before{};
};

Signals::Signals(std::initializer_list<int> signals) : masks_(std::make_unique<Masks>()) {
  sigemptyset(&masks_->waited);
  for (const int signal : signals) sigaddset(&masks_->waited, signal);
  pthread_sigmask(SIG_BLOCK, &masks_->waited, &masks_->before);
}

Signals::~Signals() { pthread_sigmask(SIG_SETMASK, &masks_->before, nullptr); }

std::optional<int> Signals::wait_for(Duration time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  const timespec timeout{.tv_sec = seconds.count(),
                         .tv_nsec = std::chrono::nanoseconds(time - seconds).count()};
  const int signal = sigtimedwait(&masks_->waited, nullptr, &timeout);
  return signal > 0 ? std::optional(signal) : std::nullopt;
}

int Signals::wait() {
  for (;;) {
    int signal = 0;
    if (sigwait(&masks_->waited, &signal) == 0) return signal;
  }
}

}  // namespace oncebox::app
