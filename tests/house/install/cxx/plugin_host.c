/* tests/house/install/cxx/plugin_host.c -- loads a plugin and lets go of it; prints what its last
 * call returned. The plugin must say that it stays: signal handlers are in it. (Of g++'s it does by
 * itself, because of STB_GNU_UNIQUE.) */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>

static int says_that_it_stays(void *plugin) {
  struct link_map *map;
  ElfW(Dyn) * entry;
  if (dlinfo(plugin, RTLD_DI_LINKMAP, &map) != 0) return 0;
  for (entry = map->l_ld; entry->d_tag != DT_NULL; entry++)
    if (entry->d_tag == DT_FLAGS_1) return (entry->d_un.d_val & DF_1_NODELETE) != 0;
  return 0;
}

int main(void) {
  int i, value = 0;
  for (i = 0; i < 10; i++) {
    void *plugin = dlopen(PLUGIN, RTLD_NOW);
    if (plugin == NULL || !says_that_it_stays(plugin)) {
      fprintf(stderr, "%s\n", plugin == NULL ? dlerror() : PLUGIN " would be unloaded");
      return 1;
    }
    value = ((int (*)(void))dlsym(plugin, "add_one"))();
    dlclose(plugin);
  }
  printf("%d\n", value);
  return 0;
}
