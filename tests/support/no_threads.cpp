// Linked into the test programs that cmake/OnceboxTestBuilds.cmake says have no threads, and that
// ThreadSanitizer therefore does not run: starting one ends the program, before anything races.
#include <pthread.h>

#include <cstdio>
#include <cstdlib>

extern "C" int pthread_create(pthread_t* /*thread*/, const pthread_attr_t* /*attributes*/,
                              void* (* /*start*/)(void*), void* /*argument*/) noexcept {
  std::fputs(
      "this program starts a thread: take it from the list of programs without threads in "
      "cmake/OnceboxTestBuilds.cmake, so that ThreadSanitizer runs it\n",
      stderr);
  std::abort();
}
