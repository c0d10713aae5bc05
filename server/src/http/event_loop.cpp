#include "http/event_loop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <utility>

#include "http/connection.hpp"
#include "http/http_exchange.hpp"

namespace oncebox::server {

namespace asio = boost::asio;

namespace {

thread_local const EventLoop* current_loop = nullptr;

/// A task that throws, for lack of memory, does not keep the others from running.
void run(const std::function<void()>& task) noexcept {
  try {
    task();
  } catch (const std::exception&) {
    // Whatever it was about ends with its client, or at its deadline.
  }
}

/// False when a callback threw, for lack of memory: the others go on.
bool runs_to_its_end(asio::io_context& context) noexcept {
  try {
    context.run();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

class EventLoop::Impl {
 public:
  // One thread runs it and others only post to it, so its sockets need no locks.
  asio::io_context context{BOOST_ASIO_CONCURRENCY_HINT_UNSAFE_IO};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  asio::steady_timer ticker{context};
};

EventLoop::EventLoop(std::chrono::milliseconds tick)
    : tick_(tick), impl_(std::make_unique<Impl>()) {}

EventLoop::~EventLoop() { stop(); }

asio::io_context& EventLoop::context() noexcept { return impl_->context; }

bool EventLoop::is_here() const noexcept { return current_loop == this; }

void EventLoop::start() {
  thread_ = std::jthread([this] {
    current_loop = this;
    while (!runs_to_its_end(impl_->context)) continue;
    current_loop = nullptr;
  });
  asio::post(impl_->context, [this] { on_tick(); });
}

void EventLoop::stop() noexcept {
  if (thread_.joinable()) {
    end();
    thread_.join();
  }
  // Declared before the lock, so destroyed after it: they may own the last reference to a
  // connection, and the connection to this loop.
  std::vector<std::shared_ptr<HttpExchange>> answers;
  std::vector<std::function<void()>> tasks;
  const detail::Lock lock(mutex_);
  is_stopped_ = true;
  answers.swap(answers_);
  tasks.swap(tasks_);
}

/// With the sockets closed and the timer ended nothing is left to wait for, and the thread ends
/// once every callback was called: they own the connections.
void EventLoop::close_all() {
  for_each([](Connection& connection) { connection.cut(); });
  has_ended_ = true;
  impl_->ticker.cancel();
  impl_->work.reset();
}

void EventLoop::post(std::function<void()> task) {
  const detail::Lock lock(mutex_);
  if (is_stopped_) return;
  tasks_.push_back(std::move(task));
  wake();
}

void EventLoop::post_answer(std::shared_ptr<HttpExchange> exchange) {
  const detail::Lock lock(mutex_);
  if (is_stopped_) return;
  answers_.push_back(std::move(exchange));
  wake();
}

void EventLoop::end() noexcept {
  const detail::Lock lock(mutex_);
  is_ending_ = true;
  wake();
}

void EventLoop::wake() noexcept {
  if (is_woken_) return;
  try {
    asio::post(impl_->context, [this] { run_posted(); });
    is_woken_ = true;
  } catch (const std::exception&) {
    // Without memory for a message to the loop, its next tick finds what was posted.
  }
}

void EventLoop::run_posted() {
  std::vector<std::shared_ptr<HttpExchange>> answers;
  std::vector<std::function<void()>> tasks;
  bool is_ending = false;
  {
    const detail::Lock lock(mutex_);
    answers.swap(answers_);
    tasks.swap(tasks_);
    is_woken_ = false;
    is_ending = std::exchange(is_ending_, false);
  }
  for (const auto& exchange : answers) exchange->connection().on_answer(*exchange);
  for (const auto& task : tasks) run(task);
  if (is_ending) close_all();
}

void EventLoop::add(Connections& one) noexcept { connections_.splice(connections_.end(), one); }

void EventLoop::remove(Connections::iterator position) noexcept { connections_.erase(position); }

void EventLoop::for_each(const std::function<void(Connection&)>& call) {
  for (auto next = connections_.begin(); next != connections_.end();) call(**next++);
}

void EventLoop::on_tick() {
  // First, because it can have the memory of the wait that has just ended.
  impl_->ticker.expires_after(tick_);
  impl_->ticker.async_wait([this](const boost::system::error_code& error) {
    if (!error && !has_ended_) on_tick();
  });
  run_posted();
  for_each([](Connection& connection) { connection.on_tick(); });
  if (!stalled_.empty()) end_slowest();
}

void EventLoop::note_stalled(Connection& connection, SteadyTime since) noexcept {
  try {
    stalled_.push_back({since, &connection});
  } catch (const std::exception&) {
    // Without memory for the list some stay until the next look.
  }
}

void EventLoop::end_slowest() {
  std::vector<Stalled> stalled;
  stalled.swap(stalled_);
  std::ranges::sort(stalled, {}, &Stalled::since);
  for (const Stalled& slow : stalled) slow.connection->give_memory();
}

std::string_view EventLoop::http_date() {
  using std::chrono::sys_days;
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  if (now == date_second_) return date_;
  date_second_ = now;
  constexpr std::array kDays{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                               "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const sys_days day = std::chrono::floor<std::chrono::days>(now);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(now - day);
  date_ =
      fmt::format("{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT",
                  kDays[std::chrono::weekday(day).c_encoding()], static_cast<unsigned>(date.day()),
                  kMonths[static_cast<unsigned>(date.month()) - 1], static_cast<int>(date.year()),
                  time.hours().count(), time.minutes().count(), time.seconds().count());
  return date_;
}

}  // namespace oncebox::server
