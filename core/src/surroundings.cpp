#include "oncebox/surroundings.hpp"

namespace oncebox::detail {

Logger& no_log() noexcept {
  static NullLogger logger;
  return logger;
}

Observer& no_observer() noexcept {
  static Observer observer;
  return observer;
}

}  // namespace oncebox::detail
